pos.encoding @another {
}
