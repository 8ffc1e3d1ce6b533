"""The three steps of an upload (ask for a URL, send the bytes, complete), and files.info."""

from __future__ import annotations

import asyncio
import mimetypes
from typing import Any

from aiohttp import web

from sandbox.slack.call import Call, Method
from sandbox.slack.chat import app_message
from sandbox.slack.errors import SlackError
from sandbox.slack.spec import Channel
from sandbox.slack.state import State, UploadedFile

_PROCESSING_SECONDS = 0.2
"""real: a file has no mimetype, and cannot be put into a block, until Slack has looked at it"""


def file_object(state: State, file: UploadedFile) -> dict[str, Any]:
    """A file as the API shows it; `mimetype` is empty while it is being processed."""
    return {
        "id": file.id,
        "name": file.name,
        "title": file.title or file.name,
        "mimetype": file.mimetype,
        "size": len(file.content),
        "user": state.spec.app.bot_user,
        "channels": list(file.channels),
        "url_private": f"{state.address}/files/{file.id}",
        "permalink": f"{state.address}/files/{file.id}",
    }


def _upload_url(call: Call) -> dict[str, Any]:
    name = call.text("filename", required=True)
    if call.number("length", 0) <= 0:
        raise SlackError("invalid_arguments")
    file = UploadedFile(call.state.next_id("F"), name)
    call.state.files[file.id] = file
    return {"ok": True, "upload_url": f"{call.state.address}/upload/{file.id}", "file_id": file.id}


def _share(call: Call) -> Channel | None:
    wanted = call.text("channel_id") or call.text("channels")
    if not wanted:
        return None
    state = call.state
    if wanted in state.people:
        return state.direct_channel(wanted)
    channel = state.channels.get(wanted)
    if channel is None or (channel.kind != "public" and not state.app_is_in(channel)):
        raise SlackError("channel_not_found")
    if channel.archived:
        raise SlackError("is_archived")
    if not state.app_is_in(channel):
        raise SlackError("not_in_channel")
    return channel


def _complete(call: Call) -> dict[str, Any]:
    given = call.decoded("files", "invalid_arguments")
    if not isinstance(given, list) or not given:
        raise SlackError("invalid_arguments")
    files = []
    for each in given:
        file = call.state.files.get(str(each.get("id")))
        if file is None or not file.content:
            raise SlackError("file_not_found")
        file.title = each.get("title", "")
        files.append(file)
    channel = _share(call)
    for file in files:
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        asyncio.get_running_loop().call_later(_PROCESSING_SECONDS, _processed, file, kind)
    if channel is not None:
        for file in files:
            file.channels.append(channel.id)
        shown = [file_object(call.state, file) for file in files]
        content = {"text": call.text("initial_comment"), "files": shown, "subtype": "file_share"}
        call.state.add_message(channel, app_message(call, content), call.text("thread_ts"))
    return {"ok": True, "files": [file_object(call.state, file) for file in files]}


def _processed(file: UploadedFile, kind: str) -> None:
    file.mimetype = kind


def _info(call: Call) -> dict[str, Any]:
    file = call.state.files.get(call.text("file", required=True))
    if file is None:
        raise SlackError("file_not_found")
    return {"ok": True, "file": file_object(call.state, file)}


async def receive(state: State, request: web.Request) -> web.Response:
    """The bytes of an upload, raw or as a form's file."""
    file = state.files.get(request.match_info["file"])
    if file is None:
        return web.Response(status=404, text="file_not_found")
    if request.content_type == "multipart/form-data":
        form = await request.post()
        part = next((v for v in form.values() if isinstance(v, web.FileField)), None)
        file.content = part.file.read() if part else b""
    else:
        file.content = await request.read()
    return web.Response(text=f"OK - {len(file.content)}")


def serve_file(state: State, request: web.Request) -> web.Response:
    """The file itself, for the page."""
    file = state.files.get(request.match_info["file"])
    if file is None:
        raise web.HTTPNotFound
    kind = mimetypes.guess_type(file.name)[0] or ""
    safe = kind if kind in ("image/png", "image/jpeg", "image/gif") else "text/plain"
    return web.Response(body=file.content, content_type=safe, headers={"X-Content-Type-Options": "nosniff"})


METHODS = {
    "files.getUploadURLExternal": Method(_upload_url, 4, ("files:write",), mutating=True),
    "files.completeUploadExternal": Method(_complete, 4, ("files:write",), mutating=True),
    "files.info": Method(_info, 4, ("files:read",)),
}
