"""What is served and what may be asked of it, as the caller reads it."""

from __future__ import annotations

import grammar
from grammar.formats import ENFORCED_FORMATS
from grammar.schema.document import DIALECTS
from service.engine.types import ModelInfo
from service.rpc.pb.v1 import model_pb2


def model(info: ModelInfo, limits: grammar.Limits, compile_timeout_ms: int) -> model_pb2.Model:
    """The model. Keywords, drafts and formats are the grammar package's own tables."""
    return model_pb2.Model(
        name=info.name,
        max_context_tokens=info.max_request_tokens,
        vocab_size=info.vocab_size,
        eos_token_ids=info.eos_token_ids,
        capabilities=model_pb2.Capabilities(
            constraint_kinds=["json_schema", "regex", "choice"],
            json_schema_keywords=sorted(grammar.ENFORCED_KEYWORDS),
            json_schema_drafts=DIALECTS,
            string_formats=sorted(ENFORCED_FORMATS),
            limits=model_pb2.Limits(
                max_schema_bytes=limits.max_schema_bytes,
                max_schema_depth=limits.max_schema_depth,
                max_regex_bytes=limits.max_regex_bytes,
                max_choices=limits.max_choices,
                compile_timeout_ms=compile_timeout_ms,
            ),
        ),
    )
