"""A LogitsProcessor for ``transformers.generate``: the masks without the service.

    vocabulary = vocabulary_of(model, tokenizer)
    compiled = grammar.compile_json_schema(schema, vocabulary)
    model.generate(
        **inputs,
        max_new_tokens=60,
        logits_processor=[ConstraintLogitsProcessor(compiled, max_new_tokens=60)],
    )

Told ``max_new_tokens``, each answer is whole within it, however the model is sampled; EOS is not
counted, since ``generate`` stops there anyway. Put it last in the list: what a later processor
changes is no longer held to the constraint. One processor serves one call of ``generate``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor

import grammar
from service.engine.sampling import expand_masks


def vocabulary_of(model: Any, tokenizer: Any) -> grammar.Vocabulary:
    """The vocabulary of a transformers model: its tokenizer's tokens, its own logits and EOS.

    Raises ValueError where the tokenizer cannot spell every byte, or no EOS is named.
    """
    eos = model.generation_config.eos_token_id
    if eos is None:
        eos = tokenizer.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos or ())
    return grammar.Vocabulary.from_tokenizer(
        tokenizer, model.get_output_embeddings().weight.shape[0], ids or None
    )


class ConstraintLogitsProcessor(LogitsProcessor):  # type: ignore[misc] # transformers is Any
    """Sets the scores of what the constraint forbids to minus infinity.

    Rows are known by what was generated, not by their place: beams may change places, and drafted
    tokens be taken back. ``max_new_tokens``: that of ``generate``; None promises only that what
    was written so far can be completed. Raises ValueError if no whole answer fits.

    Beams: a constraint may have fewer answers than there are beams. The others hold tokens that
    were forbidden, have a score of minus infinity, and come last in what is returned.
    """

    def __init__(self, compiled: grammar.Grammar, max_new_tokens: int | None = None) -> None:
        if max_new_tokens is not None and max_new_tokens < compiled.min_tokens:
            suffice = compiled.min_tokens
            raise ValueError(f"max_new_tokens is {max_new_tokens}; {suffice} are sure to suffice")
        self._compiled = compiled
        self._max_new_tokens = max_new_tokens
        self._num_prompt_tokens: int | None = None
        #: What was generated -> its matcher, None after a forbidden token; of the last step only.
        self._matchers: dict[tuple[int, ...], grammar.Matcher | None] = {}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``input_ids`` int[rows, tokens], prompt and answer; ``scores`` float[rows, logits].

        Raises ValueError where the scores are not of the vocabulary's width.
        """
        vocabulary = self._compiled.vocabulary
        if scores.shape[1] != vocabulary.logit_size:
            raise ValueError(
                f"scores of {scores.shape[1]} tokens, a vocabulary of {vocabulary.logit_size}"
            )
        if self._num_prompt_tokens is None:
            self._num_prompt_tokens = input_ids.shape[1]
        answers = [tuple(row) for row in input_ids[:, self._num_prompt_tokens :].tolist()]
        self._matchers = {answer: self._matcher_after(answer) for answer in answers}
        masks = np.zeros((len(answers), vocabulary.words), dtype=np.uint32)
        for answer, mask in zip(answers, masks, strict=True):
            self._fill(self._matchers[answer], len(answer), mask)
        return scores.masked_fill(~expand_masks(masks, scores), -torch.inf)

    def _matcher_after(self, answer: tuple[int, ...]) -> grammar.Matcher | None:
        """From the last step's matcher of all but the last token, else from the beginning."""
        if answer in self._matchers:
            return self._matchers[answer]
        before = self._matchers.get(answer[:-1]) if answer else None
        if before is not None:
            matcher, rest = before.fork(), answer[-1:]
        else:
            matcher, rest = self._compiled.matcher(), answer
        for token in rest:
            if matcher.is_finished:
                break  # padding beside rows that go on
            _ = matcher.min_tokens  # the completion that a budget counted on is carried along
            if not matcher.advance(token):
                return None
        return matcher

    def _fill(self, matcher: grammar.Matcher | None, num_taken: int, mask: Any) -> None:
        if matcher is None or matcher.is_finished:
            # Scores without any finite one cannot be sampled; only EOS does no harm.
            vocabulary = self._compiled.vocabulary
            for word, bit in zip(vocabulary.eos_words, vocabulary.eos_bits, strict=True):
                mask[word] |= np.uint32(bit)
            return
        left = None if self._max_new_tokens is None else self._max_new_tokens - num_taken
        matcher.fill_mask(mask, left)
