"""The workspace's state: people, channels, messages, views, files; and the journal of all that happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.slack.errors import SlackError
from sandbox.slack.manifest import Manifest
from sandbox.slack.spec import Channel, Person, Usergroup, WorkspaceSpec
from sandbox.slack.triggers import Triggers
from sandbox.world import World

Message = dict[str, Any]
"""A message as the API shows it, always with `ts` and `channel`."""


@dataclass
class Ephemeral:
    """Something only one person sees; gone when their page is loaded anew in real Slack."""

    person: str
    message: Message


@dataclass
class OpenView:
    """A modal somebody has open, or their Home tab."""

    person: str
    view: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)


@dataclass
class UploadedFile:
    """A file between its upload and its place in a channel."""

    id: str
    name: str
    content: bytes = b""
    title: str = ""
    mimetype: str = ""
    channels: list[str] = field(default_factory=list)


class State:
    """Everything there is; touched on the sandbox's loop only."""

    def __init__(self, world: World, spec: WorkspaceSpec, manifest: Manifest) -> None:
        self.world = world
        self.spec = spec
        self.manifest = manifest
        self.address = ""
        """http://127.0.0.1:port, known once a request arrives or the workspace is served"""
        self.people: dict[str, Person] = {person.id: person for person in spec.people}
        created = int(world.now.timestamp())
        self.channels: dict[str, Channel] = {channel.id: channel for channel in spec.channels}
        for channel in self.channels.values():
            channel.created = created
        self.usergroups: dict[str, Usergroup] = {group.id: group for group in spec.usergroups}
        self.messages: dict[str, dict[str, Message]] = {channel: {} for channel in self.channels}
        self.ephemerals: list[Ephemeral] = []
        self.views: dict[str, OpenView] = {}
        self.files: dict[str, UploadedFile] = {}
        self.triggers = Triggers(time.monotonic)
        self.journal: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self._readers: set[asyncio.Queue[dict[str, Any]]] = set()
        self._last_ts = 0
        self._ids: Counter[str] = Counter()

    def next_id(self, prefix: str) -> str:
        """An identifier such as `V00000001`, in order of need."""
        self._ids[prefix] += 1
        return f"{prefix}{self._ids[prefix]:08d}"

    def next_ts(self) -> str:
        """A message timestamp of world time; never the same twice."""
        micros = int(self.world.now.timestamp() * 1_000_000)
        self._last_ts = max(micros, self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def record(self, kind: str, **what: Any) -> dict[str, Any]:
        """Append to the journal, and tell the pages."""
        entry = {"seq": len(self.journal) + 1, "at": self.now_text(), "kind": kind, **what}
        self.journal.append(entry)
        self.publish({"type": "journal", "entry": entry})
        return entry

    def now_text(self) -> str:
        """World time, RFC 3339."""
        return self.world.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def subscribe(self) -> asyncio.Queue[dict[str, Any]]:
        """A queue of changes for one page."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._readers.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Forget a page."""
        self._readers.discard(queue)

    def publish(self, change: dict[str, Any]) -> None:
        """Send a change to every page."""
        for queue in self._readers:
            queue.put_nowait(change)

    # People and channels

    def person(self, name_or_id: str) -> Person:
        """A person by id or by name; raises KeyError."""
        if name_or_id in self.people:
            return self.people[name_or_id]
        for person in self.people.values():
            if person.name == name_or_id.lstrip("@"):
                return person
        raise KeyError(f"There is no person {name_or_id!r} in the workspace.")

    def channel(self, name_or_id: str) -> Channel:
        """A channel by id or by name; raises KeyError."""
        if name_or_id in self.channels:
            return self.channels[name_or_id]
        for channel in self.channels.values():
            if channel.name == name_or_id.lstrip("#"):
                return channel
        raise KeyError(f"There is no channel {name_or_id!r} in the workspace.")

    def direct_channel(self, person_id: str) -> Channel:
        """The conversation between the app and a person; made when first needed."""
        for channel in self.channels.values():
            if channel.kind == "im" and person_id in channel.members:
                return channel
        created = int(self.world.now.timestamp())
        members = {person_id, self.spec.app.bot_user}
        channel = Channel(self.next_id("D"), person_id, "im", members=members, created=created)
        self.channels[channel.id] = channel
        self.messages[channel.id] = {}
        self.publish({"type": "channels"})
        return channel

    def visible_to(self, channel: Channel, person_id: str) -> bool:
        """Whether somebody can open the channel."""
        if person_id in channel.members:
            return True
        person = self.people[person_id]
        return channel.kind == "public" and person.kind not in ("guest", "external")

    def app_is_in(self, channel: Channel) -> bool:
        """Whether the app was invited."""
        return self.spec.app.bot_user in channel.members

    # Messages

    def add_message(self, channel: Channel, message: Message, thread_ts: str = "") -> Message:
        """Store a message, in a thread where `thread_ts` names one; raises SlackError thread_not_found."""
        ts = self.next_ts()
        message = {"type": "message", "ts": ts, "channel": channel.id, **message}
        if thread_ts:
            root = self.messages[channel.id].get(thread_ts)
            if root is None:
                raise SlackError("thread_not_found")
            root_ts = root.get("thread_ts", thread_ts)
            root = self.messages[channel.id][root_ts]
            root.setdefault("thread_ts", root_ts)
            root["reply_count"] = root.get("reply_count", 0) + 1
            users = root.setdefault("reply_users", [])
            if message.get("user") and message["user"] not in users:
                users.append(message["user"])
            root["latest_reply"] = ts
            message["thread_ts"] = root_ts
            self.publish({"type": "message", "message": root})
        self.messages[channel.id][ts] = message
        self.publish({"type": "message", "message": message})
        return message

    def change_message(self, channel: Channel, ts: str, changes: Mapping[str, Any]) -> Message:
        """Edit a message in place; a change to None removes the key. Raises SlackError message_not_found."""
        message = self.messages[channel.id].get(ts)
        if message is None:
            raise SlackError("message_not_found")
        for key, value in changes.items():
            if value is None:
                message.pop(key, None)
            else:
                message[key] = value
        self.publish({"type": "message", "message": message})
        return message

    def remove_message(self, channel: Channel, ts: str) -> None:
        """Delete a message; a root with replies leaves a tombstone. Raises SlackError message_not_found."""
        message = self.messages[channel.id].get(ts)
        if message is None:
            raise SlackError("message_not_found")
        if message.get("reply_count"):
            tombstone = {"subtype": "tombstone", "text": "This message was deleted.", "blocks": None}
            self.change_message(channel, ts, tombstone)
            return
        del self.messages[channel.id][ts]
        root = self.messages[channel.id].get(message.get("thread_ts", ""))
        if root is not None:
            root["reply_count"] -= 1
            self.publish({"type": "message", "message": root})
        self.publish({"type": "deleted", "channel": channel.id, "ts": ts})

    def replies(self, channel: Channel, thread_ts: str) -> list[Message]:
        """The root and its replies, oldest first; empty where there is no such root."""
        found = self.messages[channel.id].get(thread_ts)
        if found is None:
            return []
        root_ts = found.get("thread_ts", thread_ts)
        return [m for m in self.messages[channel.id].values() if root_ts in (m["ts"], m.get("thread_ts"))]

    def add_ephemeral(self, person_id: str, channel_id: str, message: Message) -> Message:
        """Show something to one person only."""
        message = {"type": "message", "ts": self.next_ts(), "channel": channel_id, **message}
        self.ephemerals.append(Ephemeral(person_id, message))
        self.publish({"type": "ephemeral", "person": person_id, "message": message})
        return message

    def ephemeral(self, person_id: str, ts: str) -> Ephemeral | None:
        """One ephemeral message by its ts."""
        for each in self.ephemerals:
            if each.person == person_id and each.message["ts"] == ts:
                return each
        return None

    def remove_ephemeral(self, person_id: str, ts: str) -> None:
        """Take an ephemeral message from the person's screen."""
        self.ephemerals = [
            each for each in self.ephemerals if (each.person, each.message["ts"]) != (person_id, ts)
        ]
        self.publish({"type": "ephemeral_removed", "person": person_id, "ts": ts})
