//! A daemon whose every reply the test gives, and the hook as a real process in front of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use askd_client::Places;
use askd_wire::{
    Ask, AskState, Delivery, Lineage, Outcome, OutcomeKind, RaiseAsk, Raised, Requester, Verdict,
};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Shared machines stall; nothing here takes a second otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a connection brought.
#[derive(Debug)]
pub(crate) enum Seen {
    Request(Request),
    Closed,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) token: Option<String>,
    pub(crate) body: String,
    stream: UnixStream,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn raise(&self) -> RaiseAsk {
        assert_eq!(self.method, "POST");
        assert!(self.target.starts_with("/v1/asks?wait="), "{}", self.target);
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn reply(&self, status: &str, body: &str) {
        let length = body.len();
        self.raw(&format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nx-askd-version: 1\r\n\r\n{body}"
        ));
    }

    pub(crate) fn raw(&self, bytes: &str) {
        // The hook may have gone already; a test that minds looks at what it did.
        let _ = (&self.stream).write_all(bytes.as_bytes());
    }

    pub(crate) fn raised(&self, ask: Ask, released: bool) {
        let body = serde_json::to_string(&Raised { ask, token: None, released }).unwrap();
        self.reply("201 Created", &body);
    }

    /// Ends the connection, as a daemon that dies does.
    pub(crate) fn hang_up(&self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

pub(crate) struct Daemon {
    pub(crate) dir: TempDir,
    pub(crate) seen: Receiver<Seen>,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let seen = listen(dir.path());
        Self { dir, seen }
    }

    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("the hook did nothing")
    }

    pub(crate) fn request(&self) -> Request {
        loop {
            if let Seen::Request(request) = self.next() {
                return request;
            }
        }
    }

    pub(crate) fn closed(&self) {
        match self.next() {
            Seen::Closed => {}
            Seen::Request(request) => panic!("not closed, but {request:?}"),
        }
    }

    pub(crate) fn hook(&self) -> Hook {
        Hook::new(self.dir.path())
    }
}

/// Listens where a daemon of this directory does.
pub(crate) fn listen(dir: &Path) -> Receiver<Seen> {
    let places = Places::at(dir);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(places.run_dir()).unwrap();
    let listener = UnixListener::bind(places.ask_sock()).unwrap();
    std::fs::set_permissions(places.ask_sock(), PermissionsExt::from_mode(0o600)).unwrap();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream, &sender));
        }
    });
    seen
}

fn serve(stream: UnixStream, sender: &Sender<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader, &stream) {
        if sender.send(Seen::Request(request)).is_err() {
            return;
        }
    }
    let _ = sender.send(Seen::Closed);
}

fn read_request(reader: &mut BufReader<UnixStream>, stream: &UnixStream) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut length, mut token) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => token = Some(value.strip_prefix("Bearer ").unwrap().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    Some(Request { method, target, token, body, stream: stream.try_clone().unwrap() })
}

/// A hook call to be made.
pub(crate) struct Hook {
    pub(crate) command: Command,
}

impl Hook {
    pub(crate) fn new(dir: &Path) -> Self {
        Self::from(Command::new(env!("CARGO_BIN_EXE_hook-alone")), dir)
    }

    /// The same with another process between the test and the hook, which plays the agent.
    pub(crate) fn under_an_agent(dir: &Path) -> Self {
        let agent = dir.join("claude");
        std::os::unix::fs::symlink("/bin/sh", &agent).unwrap();
        let mut command = Command::new(agent);
        command.args(["-c", "exec 3<&0; \"$0\" \"$@\" <&3 & wait", env!("CARGO_BIN_EXE_hook-alone")]);
        Self::from(command, dir)
    }

    fn from(mut command: Command, dir: &Path) -> Self {
        command.args(["claude-code", "--dir"]).arg(dir);
        command.env_clear().env("CLAUDE_CODE_ENTRYPOINT", "cli").env("HOME", dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command }
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn start(mut self, event: &str) -> Child {
        let mut child = self.command.spawn().unwrap();
        // A hook that does not read to the end closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(event.as_bytes());
        child
    }

    pub(crate) fn run(self, event: &str) -> Output {
        self.start(event).wait_with_output().unwrap()
    }
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// Nothing printed, exit status 0, one line that names what was wrong.
pub(crate) fn assert_silent(output: &Output, why: &str) {
    assert_eq!(stdout(output), "");
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(why), "{why:?} is not in {told:?}");
    assert_eq!(told.lines().count(), usize::from(!why.is_empty()), "{told}");
}

/// The ask that a daemon makes of what was raised.
pub(crate) fn open_ask(raise: &RaiseAsk) -> Ask {
    Ask {
        id: "0190-ask".to_owned(),
        handle: "k7f".to_owned(),
        state: AskState::Open,
        digest: "sha256:00".to_owned(),
        class: raise.class,
        attendance: raise.attendance.unwrap_or_default(),
        action: raise.action.clone(),
        display: Vec::new(),
        lineage: Lineage::default(),
        options: raise.options.clone(),
        asked_at: "2026-11-30T08:00:00.000Z".to_owned(),
        deadline: None,
        default: None,
        gives_up_at: None,
        requester: Requester { link: "attached".to_owned(), since: None, until: None, at: None, kind: None },
        outcome: None,
        delivery: Delivery::None,
        late: None,
    }
}

pub(crate) fn settled(raise: &RaiseAsk, verdict: Verdict, change: impl FnOnce(&mut Outcome)) -> Ask {
    let mut outcome = Outcome {
        outcome: match verdict {
            Verdict::Allow => OutcomeKind::Allowed,
            Verdict::Deny => OutcomeKind::Denied,
            Verdict::None => OutcomeKind::Withdrawn,
        },
        cause: "person".to_owned(),
        source: None,
        surface: None,
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: "2026-11-30T08:00:01.000Z".to_owned(),
        verdict,
        reason_for_model: None,
        text: "by you".to_owned(),
        extra: Map::new(),
    };
    change(&mut outcome);
    Ask { state: AskState::Settled, outcome: Some(outcome), delivery: Delivery::Pending, ..open_ask(raise) }
}
