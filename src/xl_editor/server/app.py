"""The routes: an HTTP request becomes calls of an editor, which the worker answers."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from xl_editor.editor import PRESETS, Call, Editor
from xl_editor.edits import Correction, Score, Trace
from xl_editor.errors import RequestError
from xl_editor.server import schema
from xl_editor.server.errors import ApiError, invalid, refused
from xl_editor.server.guard import Guard
from xl_editor.server.metrics import Metrics
from xl_editor.server.worker import BusyError, CallFailedError, StoppingError, Worker

PAGE = Path(__file__).parent / "page"
LIMITS = {
    "characters": schema.MAX_CHARACTERS,
    "transferred_characters": schema.MAX_TRANSFERRED,
    "texts": schema.MAX_TEXTS,
    "steps": schema.MAX_STEPS,
}
MAX_WAITING = 128  # texts
OPERATIONS = ("locate", "infill", "score", "replace", "delete", "classify", "transfer", "correct")

UNEXPECTED = ApiError(500, "Something went wrong in the server.")

Result = TypeVar("Result")


def create_app(
    editors: Mapping[str, Editor],
    *,
    max_waiting: int = MAX_WAITING,
    api_key: str | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] = (),
) -> FastAPI:
    """A server of these models, the first of which answers who names none; under these names of hosts, if any."""
    metrics = Metrics()
    worker = Worker(max_waiting, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        await asyncio.to_thread(worker.stop)

    app = FastAPI(title="XL-Editor", version="1", docs_url=None, redoc_url=None, lifespan=lifespan)

    def refuse_early(path: str) -> None:
        """A full queue says so before anything is read: when hundreds ask at once, nobody waits for their bodies."""
        operation = path.removeprefix("/v1/")
        if operation in OPERATIONS:
            try:
                worker.check_room()
            except BusyError as busy:
                metrics.requests.labels(operation, 429).inc()
                raise _busy(busy) from None

    # The last that is added stands first.
    app.add_middleware(Guard, hosts=hosts, refuse_early=refuse_early)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
    _add_error_handlers(app)

    def check_key(request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if api_key and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise ApiError(401, "The header Authorization must be Bearer and the server's key.")

    desk = Desk(editors, worker, metrics)
    app.include_router(_editing(desk, Depends(check_key)))
    _add_upkeep(app, desk, Depends(check_key))
    _add_page(app)
    return app


@dataclass(frozen=True)
class Desk:
    """Takes requests to the worker, and brings back its answers."""

    editors: Mapping[str, Editor]
    worker: Worker
    metrics: Metrics

    def _editor_of(self, asked: schema.Request) -> Editor:
        name = asked.model or _default_model(self.editors, asked)
        if name not in self.editors:
            raise ApiError(
                404, f"model must be one of {', '.join(self.editors)}.", field="model", kind="model_not_found"
            )
        return self.editors[name]

    async def answer(self, asked: schema.Request, request: Request) -> Response:
        """All answers, when they are there."""
        with self.metrics.counting(asked.operation) as outcome:
            calls = asked.calls()
            results = await _unless_gone(request, _translated(self.worker.ask(self._editor_of(asked), calls), asked))
            if results is None:
                return Response(status_code=outcome.status)
            # Thousands of answers take long to write down: not in the event loop.
            response = await asyncio.to_thread(_response, asked, calls, results)
            outcome.status = 200
            return response

    async def stream(self, asked: schema.TransferRequest, request: Request) -> Response:
        """Every edit of a transfer when it is made, as an event."""
        with ExitStack() as until_begun:
            outcome = until_begun.enter_context(self.metrics.counting("transfer"))
            news = self.worker.watch(self._editor_of(asked), asked.calls())
            # Until the first news the answer may still be a refusal, with its status.
            first = await _unless_gone(request, _translated(anext(news), asked))
            if first is None:
                return Response(status_code=outcome.status)
            until_over = until_begun.pop_all()

        async def events() -> AsyncIterator[str]:
            told = first
            with until_over:
                try:
                    async with aclosing(news):
                        while not isinstance(told, list):
                            yield _event("edit", told.to_dict())
                            told = await _translated(anext(news), asked)
                        (trace,) = told
                        yield _event("trace", trace.to_dict())
                        outcome.status = 200
                except Exception as error:
                    failure = error if isinstance(error, ApiError) else UNEXPECTED
                    if failure is UNEXPECTED:  # what is no stream, the web server tells by itself
                        logging.getLogger("uvicorn.error").exception("A stream ended unexpectedly.")
                    outcome.status = failure.status
                    yield _event("error", failure.body.model_dump())

        return StreamingResponse(events(), media_type="text/event-stream")


def _editing(desk: Desk, check_key: Any) -> APIRouter:
    v1 = APIRouter(prefix="/v1", dependencies=[check_key])

    @v1.get("/models", responses=_documented(schema.Models))
    async def models() -> schema.Models:
        """The models that can be asked, and the limits of a request."""
        return schema.Models(models=[_described(name, editor) for name, editor in desk.editors.items()], limits=LIMITS)

    @v1.post("/locate", responses=_documented(schema.Located))
    async def locate(asked: schema.LocateRequest, request: Request) -> Response:
        """Where is something missing? The places most in need of text come first."""
        return await desk.answer(asked, request)

    @v1.post("/infill", responses=_documented(schema.Infilled))
    async def infill(asked: schema.InfillRequest, request: Request) -> Response:
        """Fill the blanks, written [_], of a text."""
        return await desk.answer(asked, request)

    @v1.post("/score", responses=_documented(Score))
    async def score(asked: schema.ScoreRequest, request: Request) -> Response:
        """How probable is it to insert exactly this between left and right?"""
        return await desk.answer(asked, request)

    @v1.post("/replace", responses=_documented(schema.Replaced))
    async def replace(asked: schema.ReplaceRequest, request: Request) -> Response:
        """What could stand in place of a span, with the odds against what stands there?"""
        return await desk.answer(asked, request)

    @v1.post("/delete", responses=_documented(schema.Deleted))
    async def delete(asked: schema.DeleteRequest, request: Request) -> Response:
        """What does not belong? The parts that fit least come first."""
        return await desk.answer(asked, request)

    @v1.post("/classify", responses=_documented(schema.Classified))
    async def classify(asked: schema.ClassifyRequest, request: Request) -> Response:
        """How probable is each style of the model?"""
        return await desk.answer(asked, request)

    @v1.post("/transfer", responses=_documented(Trace))
    async def transfer(asked: schema.TransferRequest, request: Request) -> Response:
        """Revise a text into another style, edit by edit. A stream has events edit, then trace; or error."""
        return await (desk.stream if asked.stream else desk.answer)(asked, request)

    @v1.post("/correct", responses=_documented(Correction))
    async def correct(asked: schema.CorrectRequest, request: Request) -> Response:
        """Make a text right: the corrected text, and its edits."""
        return await desk.answer(asked, request)

    return v1


def _add_upkeep(app: FastAPI, desk: Desk, check_key: Any) -> None:
    @app.get("/healthz", responses={503: {"model": schema.Error}})
    async def healthz() -> dict[str, str]:
        """Whether the process answers, and what computes in it is alive."""
        if not desk.worker.is_alive:
            raise ApiError(503, "What computes the answers has died; start the server anew.")
        return {"status": "ok"}

    @app.get("/readyz", responses={503: {"model": schema.Error}})
    async def readyz() -> dict[str, str]:
        """Whether requests are accepted."""
        if not desk.worker.is_ready:
            raise ApiError(503, "The server is shutting down.")
        return {"status": "ready"}

    @app.get("/metrics", dependencies=[check_key], response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        """Figures for Prometheus."""
        return PlainTextResponse(desk.metrics.render())


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(PAGE / "docs.html")

    app.mount("/page", StaticFiles(directory=PAGE))


def _default_model(editors: Mapping[str, Editor], asked: schema.Request) -> str:
    """The first one; of those that have styles, or have learnt to correct, if it takes that to answer."""
    needs_styles = asked.operation in ("classify", "transfer") or getattr(asked, "style", None) is not None
    names = [name for name, editor in editors.items() if editor.styles or not needs_styles]
    if asked.operation == "correct":
        names = [name for name, editor in editors.items() if editor.can_correct]
    return next(iter(names or editors))


def _response(asked: schema.Request, calls: Sequence[Call], results: Sequence[Any]) -> Response:
    answers = [schema.to_json(call, result) for call, result in zip(calls, results, strict=True)]
    return JSONResponse({"results": answers} if asked.is_list else answers[0])


async def _translated(work: Awaitable[Result], asked: schema.Request) -> Result:
    """The worker's refusals, in the language of HTTP."""
    try:
        return await work
    except BusyError as busy:
        raise _busy(busy) from None
    except StoppingError as stopping:
        raise ApiError(503, str(stopping), retry_after=1) from None
    except asyncio.TimeoutError:
        raise ApiError(503, "The answer took too long; try a shorter text.", kind="timeout") from None
    except CallFailedError as failed:
        if not isinstance(failed.error, RequestError):
            raise failed.error from None
        raise refused(failed.error, type(asked).model_fields, failed.index if asked.is_list else None) from None


def _busy(busy: BusyError) -> ApiError:
    return ApiError(429, str(busy), retry_after=busy.retry_after)


async def _unless_gone(request: Request, work: Awaitable[Result]) -> Result | None:
    """What the work gives; or None as soon as the client leaves, and the work is cancelled."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(_: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def validation_error(_: Request, error: RequestValidationError) -> Response:
        return invalid(error).response()

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        response = ApiError(error.status_code, f"{error.detail}.").response()
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return UNEXPECTED.response()


def _documented(answer: Any) -> dict[int | str, dict[str, Any]]:
    if answer is schema.Models:
        return {401: {"model": schema.Error}}
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": schema.Error} for status in (400, 401, 404, 408, 413, 422, 429, 503)
    }
    success: dict[str, Any] = {"model": answer | schema.Many[answer]}
    if answer is Trace:
        success["content"] = {"text/event-stream": {}}
    return {200: success, **errors}


def _described(name: str, editor: Editor) -> schema.Model:
    config = editor.model.config
    return schema.Model(
        name=name,
        vocabulary=config.vocab_size,
        layers=config.n_layer,
        styles=list(editor.styles),
        style_optional=editor.engine.format.style_optional,
        presets={preset: asdict(editor.rules(preset)) for preset in PRESETS},
    )


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
