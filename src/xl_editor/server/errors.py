"""Whatever goes wrong is answered as {error, error_type, field}: one sentence, its kind, and who is to blame."""

from __future__ import annotations

from collections.abc import Collection

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from xl_editor.errors import RequestError
from xl_editor.server.schema import Error

KINDS = {
    400: "bad_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "slow_body",
    413: "too_large",
    422: "invalid",
    429: "busy",
    500: "internal",
    503: "unavailable",
}


class ApiError(Exception):
    """A request that cannot be met."""

    def __init__(
        self, status: int, message: str, *, field: str | None = None, kind: str | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = Error(error=message, error_type=kind or KINDS.get(status, "error"), field=field)
        self.headers = {"Retry-After": str(retry_after)} if retry_after else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"

    def response(self) -> JSONResponse:
        return JSONResponse(self.body.model_dump(), self.status, self.headers)


def refused(error: RequestError, fields: Collection[str], index: int | None = None) -> ApiError:
    """What the editor refused; one of several texts by its index."""
    where = "" if index is None else f".{index}"
    return ApiError(422, str(error), field=f"{error.argument}{where}" if error.argument in fields else None)


def invalid(error: RequestValidationError) -> ApiError:
    """What does not fit the schema; of several complaints, the one that goes deepest.

    Where one text or a list may be given, the complaint that it is not the other says nothing.
    """
    complaint = max(
        error.errors(), key=lambda found: (len(found["loc"]), found["type"] not in ("string_type", "list_type"))
    )
    if complaint["type"] == "json_invalid":
        return ApiError(400, "The body is not JSON.", kind="bad_json")
    _, *path = complaint["loc"]
    message = complaint["msg"].removeprefix("Value error, ")
    if not path and complaint["type"] != "value_error":
        return ApiError(422, "The body must be a JSON object, sent with Content-Type: application/json.")
    if not path:  # what is wrong with the whole, a validator of ours has found
        return ApiError(422, message, field=complaint["ctx"]["error"].argument)
    # Between the field and the index in a list stand names of pydantic's own.
    field = ".".join([str(path[0]), *(str(part) for part in path[1:] if isinstance(part, int))])
    return ApiError(422, f"{field}: {message}", field=field)
