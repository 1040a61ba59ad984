//! A double of Telegram's Bot API on loopback, with people who read, tap and write. It knows messages and updates as the
//! real one does, refuses by the rows of [`limits`] alone, and fails as a test tells it to. It knows nothing of askd.

pub mod limits;
mod methods;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::model::http;
use crate::patience::until;

/// A person with an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: i64,
    pub name: &'static str,
}

/// A message in a chat, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub id: i64,
    pub text: String,
    /// Label and data.
    pub buttons: Vec<(String, String)>,
    pub edits: usize,
    pub reply_to: Option<i64>,
    pub force_reply: bool,
    /// The bot wrote it.
    pub bots: bool,
    raw: String,
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This reply instead of doing it.
    Reply(u16, Value),
    /// Done, and the connection breaks before the reply.
    LostReply,
    /// Half of a reply, and the end of the connection.
    HalfReply,
    /// The reply comes after so long.
    Slow(Duration),
    /// Not JSON.
    Nonsense,
}

impl Fault {
    /// 429 with so many seconds to wait.
    pub fn flood(secs: u64) -> Self {
        let says = format!("{} {secs}", limits::FLOOD.says);
        Self::Reply(
            429,
            json!({"ok": false, "error_code": 429, "description": says, "parameters": {"retry_after": secs}}),
        )
    }

    pub fn of(limit: limits::Limit) -> Self {
        let (code, reply) = limit.refusal();
        Self::Reply(code, reply)
    }
}

#[derive(Default)]
pub(crate) struct State {
    token: String,
    bot: i64,
    now: i64,
    next_message: i64,
    next_update: i64,
    next_tap: u64,
    chats: BTreeMap<i64, Vec<Shown>>,
    updates: VecDeque<Value>,
    /// Taps that can be answered.
    taps: Vec<String>,
    toasts: Vec<(String, String)>,
    blocked: Vec<i64>,
    frozen: Vec<(i64, i64)>,
    webhook: bool,
    polls: u64,
    /// Numbers of updates that were confirmed.
    confirmed: i64,
    faults: Vec<(String, Option<i64>, Fault)>,
    down: bool,
    calls: Vec<(String, Value)>,
}

struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

/// The running server; it ends when this is dropped.
pub struct Bot {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A token as Telegram gives them.
pub const TOKEN: &str = "4242:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1";

impl Bot {
    /// Starts to serve on a free port, with these chats.
    pub fn start(chats: &[i64]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = State {
            token: TOKEN.to_owned(),
            bot: 4242,
            now: 1_900_000_000,
            next_message: 100,
            next_update: 7000,
            chats: chats.iter().map(|chat| (*chat, Vec::new())).collect(),
            ..State::default()
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), news: Condvar::new() });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                if server.state().token.is_empty() {
                    return;
                }
                let server = Arc::clone(&server);
                thread::spawn(move || drop(server.serve(stream)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Base URL for `telegram.api_url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    // --- what people see

    /// All messages of a chat, oldest first.
    pub fn chat(&self, chat: i64) -> Vec<Shown> {
        self.shared.state().chats.get(&chat).cloned().unwrap_or_default()
    }

    /// Waits for the newest message of the bot in a chat that `is_it` knows.
    pub fn wait(&self, chat: i64, what: &str, is_it: impl Fn(&Shown) -> bool) -> Result<Shown> {
        let found =
            until(what, || Ok(self.chat(chat).into_iter().rev().find(|shown| shown.bots && is_it(shown))));
        found.with_context(|| self.story())
    }

    /// Waits for the card of an ask with its buttons.
    pub fn card(&self, chat: i64, handle: &str) -> Result<Shown> {
        let is_it =
            |shown: &Shown| shown.text.starts_with(&format!("{handle} ·")) && !shown.buttons.is_empty();
        self.wait(chat, &format!("the card of {handle}"), is_it)
    }

    /// Waits until a message says this and has no buttons.
    pub fn ended(&self, chat: i64, message: i64, words: &str) -> Result<Shown> {
        self.wait(chat, &format!("message {message} to say {words:?}"), |shown| {
            shown.id == message && shown.text.contains(words) && shown.buttons.is_empty()
        })
    }

    /// Waits for the answer to a tap.
    pub fn toast(&self, tap: &str) -> Result<String> {
        let found = until(&format!("the answer to tap {tap}"), || Ok(self.toast_now(tap)));
        found.with_context(|| self.story())
    }

    pub fn toast_now(&self, tap: &str) -> Option<String> {
        self.shared.state().toasts.iter().find(|(of, _)| of == tap).map(|(_, text)| text.clone())
    }

    /// Every call that came, with its body.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|(name, _)| name == method).map(|(_, body)| body.clone()).collect()
    }

    /// Waits until the server was told to forget every update, which means that all of them are done.
    pub fn all_confirmed(&self) -> Result<()> {
        let done =
            until("all updates to be confirmed", || Ok(self.shared.state().updates.is_empty().then_some(())));
        done.with_context(|| self.story())
    }

    pub fn story(&self) -> String {
        let state = self.shared.state();
        let calls: Vec<String> =
            state.calls.iter().rev().take(30).map(|(name, body)| format!("{name} {body}")).collect();
        format!("chats: {:#?}\ntoasts: {:?}\nlast calls: {calls:#?}", state.chats, state.toasts)
    }

    // --- what people do

    /// Taps the button with this label.
    pub fn tap(&self, person: Person, chat: i64, card: &Shown, label: &str) -> Result<String> {
        let shown =
            self.chat(chat).into_iter().find(|shown| shown.id == card.id).context("no such message")?;
        let button = shown.buttons.iter().find(|(text, _)| text.contains(label));
        let (_, data) = button.with_context(|| format!("no button {label:?} on {shown:?}"))?;
        Ok(self.tap_data(person, chat, card.id, data))
    }

    /// Taps with any data, as a program that plays a client can.
    pub fn tap_data(&self, person: Person, chat: i64, message: i64, data: &str) -> String {
        let mut state = self.shared.state();
        state.next_tap += 1;
        let tap = format!("tap{}", state.next_tap);
        state.taps.push(tap.clone());
        let update = json!({"callback_query": {
            "id": tap, "from": person.json(), "data": data, "chat_instance": "1",
            "message": {"message_id": message, "date": state.now, "chat": chat_json(chat)},
        }});
        state.put(update);
        self.shared.news.notify_all();
        tap
    }

    /// Writes in a chat, perhaps as a reply; gives the message's id.
    pub fn write(&self, person: Person, chat: i64, text: &str, reply_to: Option<i64>) -> i64 {
        let mut state = self.shared.state();
        state.now += 2;
        let id = state.add(chat, text, Vec::new(), false);
        let mut message = json!({
            "message_id": id, "date": state.now, "chat": chat_json(chat), "from": person.json(), "text": text,
        });
        if let Some(to) = reply_to
            && let Some(shown) =
                state.chats.get(&chat).and_then(|chat| chat.iter().find(|shown| shown.id == to))
        {
            let from = if shown.bots {
                json!({"id": state.bot, "is_bot": true, "first_name": "askd"})
            } else {
                person.json()
            };
            message["reply_to_message"] = json!({
                "message_id": to, "date": 1, "chat": chat_json(chat), "from": from, "text": shown.text,
            });
        }
        state.put(json!({"message": message}));
        self.shared.news.notify_all();
        id
    }

    // --- what goes wrong

    /// The next call of a method (in this chat) goes wrong.
    pub fn fault(&self, method: &str, chat: Option<i64>, fault: Fault) {
        self.shared.state().faults.push((method.to_owned(), chat, fault));
    }

    /// Nothing can be reached, or everything again.
    pub fn down(&self, down: bool) {
        self.shared.state().down = down;
        self.shared.news.notify_all();
    }

    /// The person of this private chat blocks the bot, or not any more.
    pub fn block(&self, chat: i64, blocked: bool) {
        let mut state = self.shared.state();
        state.blocked.retain(|other| *other != chat);
        if blocked {
            state.blocked.push(chat);
        }
    }

    /// Deletes a message.
    pub fn delete(&self, chat: i64, message: i64) {
        if let Some(chat) = self.shared.state().chats.get_mut(&chat) {
            chat.retain(|shown| shown.id != message);
        }
    }

    /// A message is too old to be edited.
    pub fn freeze(&self, chat: i64, message: i64) {
        self.shared.state().frozen.push((chat, message));
    }

    /// Taps so far cannot be answered any more.
    pub fn expire_taps(&self) {
        self.shared.state().taps.clear();
    }

    pub fn webhook(&self, set: bool) {
        self.shared.state().webhook = set;
        self.shared.news.notify_all();
    }

    /// A call as any program could make it: status and reply.
    pub fn call(&self, method: &str, body: &Value) -> Result<(u16, Value)> {
        self.call_as(TOKEN, method, body)
    }

    pub fn call_as(&self, token: &str, method: &str, body: &Value) -> Result<(u16, Value)> {
        let mut stream = TcpStream::connect(self.address)?;
        let body = body.to_string();
        write!(
            stream,
            "POST /bot{token}/{method} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let status = reply.get(9..12).context("no status")?.parse()?;
        let (_, body) = reply.split_once("\r\n\r\n").context("no body")?;
        Ok((status, serde_json::from_str(body)?))
    }
}

impl Drop for Bot {
    fn drop(&mut self) {
        self.shared.state().token.clear();
        self.shared.news.notify_all();
        drop(TcpStream::connect(self.address));
    }
}

impl Person {
    fn json(self) -> Value {
        json!({"id": self.id, "is_bot": false, "first_name": self.name})
    }
}

fn chat_json(chat: i64) -> Value {
    json!({"id": chat, "type": if chat > 0 { "private" } else { "supergroup" }})
}

impl State {
    fn put(&mut self, mut update: Value) {
        self.next_update += 1;
        update["update_id"] = self.next_update.into();
        self.updates.push_back(update);
    }

    fn add(&mut self, chat: i64, text: &str, buttons: Vec<(String, String)>, bots: bool) -> i64 {
        self.next_message += 1;
        let id = self.next_message;
        let shown = Shown {
            id,
            text: text.to_owned(),
            buttons,
            edits: 0,
            reply_to: None,
            force_reply: false,
            bots,
            raw: String::new(),
        };
        self.chats.entry(chat).or_default().push(shown);
        id
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if self.state().down {
            return Ok(());
        }
        let Some(request) = http::read(&stream)? else { return Ok(()) };
        let path = request.path.strip_prefix("/bot").unwrap_or_default();
        let (token, method) = path.split_once('/').unwrap_or_default();
        if token != self.state().token {
            let (code, reply) = limits::TOKEN.refusal();
            return answer(&mut stream, code, &reply);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        self.state().calls.push((method.to_owned(), body.clone()));
        let fault = self.take_fault(method, body["chat_id"].as_i64());
        if let Some(Fault::Reply(code, reply)) = &fault {
            return answer(&mut stream, *code, reply);
        }
        if let Some(Fault::Slow(wait)) = &fault {
            thread::sleep(*wait);
        }
        let (code, reply) = match method {
            "getUpdates" => self.poll(&body),
            method => methods::call(&mut self.state(), method, &body),
        };
        if self.state().down {
            return Ok(());
        }
        match fault {
            Some(Fault::LostReply) => stream.shutdown(Shutdown::Both),
            Some(Fault::HalfReply) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"ok\":tr")?;
                stream.shutdown(Shutdown::Write)
            }
            Some(Fault::Nonsense) => stream.write_all(
                b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>",
            ),
            _ => answer(&mut stream, code, &reply),
        }
    }

    fn take_fault(&self, method: &str, chat: Option<i64>) -> Option<Fault> {
        let mut state = self.state();
        let is_it =
            |(name, of, _): &(String, Option<i64>, Fault)| name == method && (of.is_none() || *of == chat);
        let at = state.faults.iter().position(is_it)?;
        Some(state.faults.remove(at).2)
    }

    /// Holds the call until there is news; another poll ends it.
    fn poll(&self, body: &Value) -> (u16, Value) {
        let mut state = self.state();
        if state.webhook {
            return limits::WEBHOOK.refusal();
        }
        state.polls += 1;
        let mine = state.polls;
        self.news.notify_all();
        if let Some(offset) = body["offset"].as_i64() {
            state.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
            state.confirmed = state.confirmed.max(offset - 1);
        }
        let end = std::time::Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or(0));
        loop {
            if state.polls != mine {
                return limits::SECOND_POLL.refusal();
            }
            if state.webhook {
                return limits::WEBHOOK.refusal();
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if !state.updates.is_empty() || left.is_zero() || state.token.is_empty() || state.down {
                let most = body["limit"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(100);
                let most = most.clamp(1, limits::UPDATES.most);
                let updates: Vec<Value> = state.updates.iter().take(most).cloned().collect();
                return (200, json!({"ok": true, "result": updates}));
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn answer(stream: &mut TcpStream, code: u16, reply: &Value) -> io::Result<()> {
    http::reply(stream, &format!("{code} Told"), reply)
}
