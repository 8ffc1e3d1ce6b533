// What the acting person can see, kept up to date by the server, and what they do.

export const store = {
  ready: false,
  me: null,
  people: new Map(),
  channels: [],
  messages: new Map(),
  ephemerals: [],
  views: [],
  journal: [],
  commands: [],
  busy: new Map(),
  now: new Date(),
  scale: 0,
  connections: 0,
};

const listeners = new Set();
let source = null;
let scheduled = false;

export function onChange(listener) {
  listeners.add(listener);
}

// Many changes may arrive at once; draw once a frame.
export function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const listener of listeners) listener();
  });
}

export async function actAs(person) {
  source?.close();
  const query = person ? `?person=${encodeURIComponent(person)}` : "";
  const answer = await fetch(`/page/state${query}`);
  if (!answer.ok) return person ? actAs("") : undefined;
  take(await answer.json());
  sessionStorage.setItem("person", store.me);
  source = new EventSource(`/page/events?person=${encodeURIComponent(store.me)}`);
  let opened = false;
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    if (change.type === "hello") {
      // After a lost connection whatever happened meanwhile has to be fetched.
      if (opened) reload();
      opened = true;
    }
    apply(change);
  };
}

async function reload() {
  const answer = await fetch(`/page/state?person=${encodeURIComponent(store.me)}`);
  if (answer.ok) take(await answer.json());
}

function take(state) {
  Object.assign(store, {
    ready: true,
    team: state.team,
    app: state.app,
    me: state.me,
    channels: state.channels,
    ephemerals: state.ephemerals,
    views: state.views,
    commands: state.commands,
    journal: state.journal,
  });
  store.people = new Map(state.people.map((person) => [person.id, person]));
  store.usergroups = new Map(state.usergroups.map((group) => [group.id, group]));
  store.messages = new Map(
    Object.entries(state.messages).map(([id, list]) => [id, new Map(list.map((message) => [message.ts, message]))]),
  );
  takeTime(state);
  changed();
}

function takeTime(state) {
  store.now = new Date(state.now);
  store.scale = state.scale;
  store.connections = state.connections;
}

const appliers = {
  message({ message }) {
    if (!store.messages.has(message.channel)) store.messages.set(message.channel, new Map());
    store.messages.get(message.channel).set(message.ts, message);
  },
  deleted({ channel, ts }) {
    store.messages.get(channel)?.delete(ts);
  },
  ephemeral({ message }) {
    store.ephemerals = [...store.ephemerals.filter((each) => each.ts !== message.ts), message];
  },
  ephemeral_removed({ ts }) {
    store.ephemerals = store.ephemerals.filter((each) => each.ts !== ts);
  },
  views({ views }) {
    store.views = views;
  },
  channels({ channels }) {
    store.channels = channels;
  },
  journal({ entry }) {
    store.journal = [...store.journal.slice(-199), entry];
  },
  act({ act }) {
    if (act.state !== "sent") store.busy.delete(act.envelope_id);
  },
};

function apply(change) {
  takeTime(change);
  appliers[change.type]?.(change);
  changed();
}

// Returns the act; what the server refuses is thrown as an Error with its sentence.
export async function post(path, body) {
  const answer = await fetch(`/page/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ person: store.me, ...body }),
  });
  const result = await answer.json().catch(() => ({ error: "The workspace does not answer." }));
  if (!answer.ok) throw new Error(result.error);
  return result.act;
}

export async function click(message, block, element, value) {
  const act = await post("click", {
    channel: message.channel,
    message_ts: message.ts,
    action_id: element.action_id,
    block_id: block.block_id,
    value,
  });
  if (act.state === "sent") store.busy.set(act.envelope_id, `${message.ts} ${element.action_id}`);
  changed();
}

export function isBusy(message, element) {
  return [...store.busy.values()].includes(`${message.ts} ${element.action_id}`);
}

export function channelMessages(channelId) {
  const all = [...(store.messages.get(channelId)?.values() ?? [])];
  const shown = all.filter((m) => !m.thread_ts || m.thread_ts === m.ts || m.subtype === "thread_broadcast");
  const mine = store.ephemerals.filter((m) => m.channel === channelId && !m.thread_ts);
  return [...shown, ...mine.map((m) => ({ ...m, ephemeral: true }))].sort(byTime);
}

export function threadMessages(channelId, ts) {
  const all = [...(store.messages.get(channelId)?.values() ?? [])];
  const mine = store.ephemerals.filter((m) => m.channel === channelId && m.thread_ts === ts);
  return [
    ...all.filter((m) => m.ts === ts || m.thread_ts === ts),
    ...mine.map((m) => ({ ...m, ephemeral: true })),
  ].sort(byTime);
}

function byTime(a, b) {
  return a.ts === b.ts ? 0 : Number(a.ts) < Number(b.ts) ? -1 : 1;
}

export function me() {
  return store.people.get(store.me);
}

// What this browser's person has read, by channel.
const readKey = () => `read ${store.me}`;

export function markRead(channelId) {
  const last = channelMessages(channelId).at(-1);
  if (!last) return;
  const read = JSON.parse(sessionStorage.getItem(readKey()) ?? "{}");
  if (Number(read[channelId] ?? 0) >= Number(last.ts)) return;
  read[channelId] = last.ts;
  sessionStorage.setItem(readKey(), JSON.stringify(read));
}

export function unread(channelId) {
  const read = JSON.parse(sessionStorage.getItem(readKey()) ?? "{}");
  const since = Number(read[channelId] ?? 0);
  return channelMessages(channelId).filter((m) => Number(m.ts) > since && m.user !== store.me).length;
}
