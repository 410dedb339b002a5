"""Language models on the bytes of a text, as a kind of model."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..errors import NOT_FINITE
from . import model
from .compiled import ModelError
from .config import TrainConfig
from .data import Text, batch_at, load_text
from .evaluate import mean_losses
from .kind import Kind
from .model import VOCABULARY, Model
from .text_bytes import TextBytes

HELD_OUT = "text/validation"
# On how many blocks a training takes the loss.
_VALIDATION_BLOCKS = 64


class TextKind(Kind[Text]):
    """GPTs on bytes."""

    noun, another, be, have = "text", "another text", "is", "has"
    held_out_names = (HELD_OUT,)
    extents = "batch, length"

    def check_uses(self, config: TrainConfig) -> None:
        model.check_uses(config)

    def training_bytes(self, config: TrainConfig) -> int:
        return model.training_bytes(config)

    def load(self, config: TrainConfig) -> Text:
        return _load(config, config.length + 1)

    def digest(self, config: TrainConfig) -> str:
        return _load(config, 1).digest

    def model(self, config: TrainConfig) -> model.Model:
        return model.Model(config)

    def check_model(self, model: Model) -> None:
        """No prediction that counts may depend on a token behind it, either."""
        super().check_model(model)
        config = model.config
        draw = torch.Generator().manual_seed(0)
        tokens, labels = torch.randint(
            0, VOCABULARY, (2, 1, config.length), generator=draw
        ).unbind()
        changed = tokens.clone()
        changed[0, -1] = (changed[0, -1] + 1) % VOCABULARY
        found = []
        for text in (tokens, changed):
            model.evaluation.manual_seed(config.seed)  # drawn positions are the same
            losses, counted = model.token_losses(text, labels)
            found.append(losses.masked_fill(~counted, 0.0))
        model.evaluation.manual_seed(config.seed)
        if (bad := ~found[0].isfinite()).any():  # NaN is unlike itself, too
            raise ModelError(
                f"{config.name}: before any step the loss of token {int(bad[0].nonzero()[0])} "
                f"of a block is {found[0][bad][0]:g}: {NOT_FINITE}"
            )
        differ = (found[0] != found[1])[0, :-1].nonzero()
        if len(differ):
            raise ModelError(
                f"token {int(differ[0])} of a block sees token {config.length - 1}, which comes "
                f"later, so that the model would learn to copy: nothing of {config.name} hides later "
                "tokens; take --mask causal"
            )

    def batch(
        self, config: TrainConfig, data: Text, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return batch_at(data.train, step, config.batch, config.length, config.seed)

    def validation_loss(self, model: Model, data: Text) -> float:
        length, seed = model.config.length, model.config.seed
        some = data.validation[: _VALIDATION_BLOCKS * length + 1]
        model.evaluation.manual_seed(seed)  # drawn positions are the same each time
        loss, _ = mean_losses(model, some, length, length)
        model.evaluation.manual_seed(seed)
        return loss

    def held_out(self, data: Text) -> dict[str, torch.Tensor]:
        return {HELD_OUT: data.validation}

    def restored(self, tensors: Mapping[str, torch.Tensor], source: str, digest: str) -> Text:
        """The held-out part; of the rest only the digest."""
        return Text(TextBytes.of(b""), tensors[HELD_OUT], source, digest)

    def data_line(self, data: Text) -> str:
        return f"text: {data.source}, {len(data.train):,} bytes to train on, {len(data.validation):,} held out"

    def step_size(self, config: TrainConfig) -> str:
        return f"{config.batch} x {config.length} bytes"

    def position_lines(self, config: TrainConfig) -> list[str]:
        if not config.shift:
            return []
        drawn = f"one of {config.shift_windows}" if config.shift_windows else "drawn anew"
        return [
            f"positions: from 0; in a step with probability {config.shift:g} from another start "
            f"per {config.shift_per}, {drawn}, all below {config.shift_range}"
        ]


def _load(config: TrainConfig, minimum: int) -> Text:
    return load_text(
        config.data,
        minimum,
        validation=config.validation,
        validation_files=config.validation_data,
    )
