// Children of pi as an older permission extension made them forward what they ask: request by renaming, a look every
// 250 ms, and a clean-up that removes each directory for itself when it is empty.
// Usage: node old_children.mjs DIR PARENT FIRST COUNT; prints one JSON line for each child that has its answer.
import fs from "node:fs";
import path from "node:path";

const [dir, parent, first, count] = process.argv.slice(2);
const session = path.join(dir, "sessions", encodeURIComponent(parent));
const [requests, responses] = ["requests", "responses"].map((name) => path.join(session, name));
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const attempt = (step) => { try { step(); return true; } catch { return false; } };

async function child(number) {
  await wait((number * 37) % 200);
  const id = `${Date.now()}-${Math.random().toString(36).slice(2, 10)}-${process.pid}`;
  const file = path.join(requests, `${id}.json`);
  const answer = path.join(responses, `${id}.json`);
  const request = {
    id, createdAt: Date.now(), requesterSessionId: `child-${number}`, targetSessionId: parent,
    requesterAgentName: "worker", message: `Current agent requested bash command 'step ${number}'. Allow this command?`,
    source: "tool_call", surface: "bash", value: `step ${number}`,
  };
  let written = false;
  for (const made of [requests, responses]) attempt(() => fs.mkdirSync(made, { recursive: true }));
  const unfinished = `${file}.${process.pid}.${Date.now()}.tmp`;
  written = attempt(() => { fs.writeFileSync(unfinished, JSON.stringify(request)); fs.renameSync(unfinished, file); });
  if (!written) return { number, fault: "the request could not be written" };
  const end = Date.now() + 600_000;
  while (!fs.existsSync(answer)) {
    if (Date.now() > end) return { number, fault: "no answer" };
    await wait(250);
  }
  let told;
  if (!attempt(() => { told = JSON.parse(fs.readFileSync(answer, "utf8")); })) told = { state: "unreadable" };
  for (const used of [answer, file]) attempt(() => fs.rmSync(used, { force: true }));
  for (const empty of [requests, responses, session]) attempt(() => fs.rmdirSync(empty));
  return { number, id, approved: told.approved, state: told.state, reason: told.denialReason };
}

const numbers = Array.from({ length: Number(count) }, (_, at) => Number(first) + at);
await Promise.all(numbers.map(async (number) => console.log(JSON.stringify(await child(number)))));
