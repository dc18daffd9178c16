from __future__ import annotations

import pickle

import pytest

from agentrt import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.MissingExtraError("openvino", "runtime"),
        errors.ConfigurationError("memory_bytes: too small."),
        errors.ModelNotFoundError("there is no model."),
        errors.InvalidRequestError("top_p", "is 3. Use less."),
        errors.PromptTooLongError(9, 8, "the context", "use another model"),
        errors.EngineFailedError("it stopped."),
        errors.DeadlineExceededError("it took too long."),
        errors.ContextNotFoundError("ctx_1"),
        errors.HistoryLockedError("it is locked."),
        errors.StructuredOutputError("it was cut off.", "length"),
    ],
)
def test_errors_travel_between_processes(error: errors.AgentRTError) -> None:
    travelled = pickle.loads(pickle.dumps(error))
    assert type(travelled) is type(error)
    assert str(travelled) == str(error)
    assert travelled.__dict__ == error.__dict__
