"""Python functions traced into definitions of encodings (`pos.encoding`)."""
