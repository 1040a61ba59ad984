//! Commands with everything that a test does not care about filled in.

use askd_core::ask::{Action, Attendance, Choice, ChoiceKind, Class, OwnPrompt, RequesterKind, Subagent};
use askd_core::event::{CallInfo, Scope, SpawnSeen, SurfaceInfo};
use askd_core::{
    Answer, AskId, Command, Decision, Digest, Hash256, Instance, LinkId, Observe, Owner, Raise, Refusal,
    Reply, Seen, SessionKey, SurfaceId, TokenHash,
};
use uuid::Uuid;

use super::World;

pub fn id(n: u128) -> AskId {
    AskId(Uuid::from_u128(n))
}

pub fn token(n: impl Into<u32>) -> TokenHash {
    Hash256::of(&n.into().to_be_bytes())
}

pub fn session(name: &str) -> SessionKey {
    SessionKey { agent: "claude-code".to_owned(), session: name.to_owned() }
}

pub fn instance(pid: u32) -> Instance {
    Instance { host: "box".to_owned(), pid, start: 7 }
}

pub fn owner(shell: u32) -> Owner {
    Owner { name: format!("shell {shell}"), since: 7 }
}

pub fn action(command: &str) -> Action {
    Action {
        tool: "Bash".to_owned(),
        kind: None,
        title: None,
        input: Some(format!("{{\"command\":{}}}", serde_json::Value::from(command))),
        cwd: Some("/work".to_owned()),
    }
}

pub fn choice(id: &str, kind: ChoiceKind) -> Choice {
    Choice { id: id.to_owned(), label: id.to_owned(), kind, grants: None, payload: None }
}

pub fn many_options() -> Vec<Choice> {
    vec![
        choice("always", ChoiceKind::AllowAlways),
        choice("once", ChoiceKind::AllowOnce),
        choice("once-more", ChoiceKind::AllowOnce),
        choice("never", ChoiceKind::RejectAlways),
        choice("no", ChoiceKind::RejectOnce),
    ]
}

pub fn child(work_id: &str) -> Subagent {
    Subagent { work_id: work_id.to_owned(), name: None, kind: None, depth: None, parent: None }
}

pub fn own_prompt(blocked: bool) -> OwnPrompt {
    OwnPrompt { at: "terminal".to_owned(), blocked }
}

/// An ask of a library client in the foreground: no deadline, a minute of grace. The key, token and link are the number's.
pub fn raise(n: u32, in_session: &str) -> Raise {
    Raise {
        id: id(u128::from(n) + 1),
        key: format!("key-{n}"),
        token: token(n),
        link: LinkId(u64::from(n)),
        kind: RequesterKind::Library,
        action: action("ls"),
        class: Class::Tool,
        attendance: None,
        session: session(in_session),
        parent: None,
        root: None,
        subagent: None,
        job: None,
        call: None,
        turn: None,
        title: None,
        options: Vec::new(),
        deadline_ms: None,
        gives_up_ms: None,
        grace_ms: 60_000,
        instance: None,
        owner: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: serde_json::Map::new(),
    }
}

/// The same from a hook process, which cannot come back.
pub fn hook(n: u32, in_session: &str) -> Raise {
    Raise { kind: RequesterKind::Hook, grace_ms: 0, ..raise(n, in_session) }
}

/// The same in the background, with a deadline of its own.
pub fn background(n: u32, in_session: &str, deadline_ms: u64) -> Raise {
    Raise { attendance: Some(Attendance::Background), deadline_ms: Some(deadline_ms), ..raise(n, in_session) }
}

/// The same call asks again, by another request.
pub fn again(raise: &Raise, n: u32) -> Raise {
    let fresh = self::raise(n, &raise.session.session);
    Raise { id: fresh.id, key: fresh.key, token: fresh.token, link: fresh.link, ..raise.clone() }
}

pub fn answer(ask: AskId, digest: Digest, decision: Decision) -> Answer {
    Answer {
        ask,
        digest,
        decision,
        option: None,
        message: None,
        stop: false,
        surface: "terminal".to_owned(),
        remote: false,
        by: Some("ana".to_owned()),
        refused: None,
    }
}

pub fn seen(in_session: &str, seen: Seen) -> Command {
    Command::Observe(Box::new(Observe {
        by: askd_core::Voice::All,
        owner: None,
        session: session(in_session),
        parent: None,
        title: None,
        cwd: None,
        instance: None,
        place: None,
        seen,
    }))
}

pub fn call_started(call: &str, subagent: Option<&str>, digest: Digest) -> Seen {
    Seen::CallStarted {
        call: call.to_owned(),
        info: CallInfo { subagent: subagent.map(str::to_owned), tool: "Bash".to_owned(), digest, side: None },
        batch: None,
        turn: None,
        spawn: None,
    }
}

pub fn spawn(call: &str, name: &str, kind: &str, background: bool) -> Seen {
    Seen::CallStarted {
        call: call.to_owned(),
        info: CallInfo {
            subagent: None,
            tool: "Agent".to_owned(),
            digest: action(call).digest(),
            side: None,
        },
        batch: None,
        turn: None,
        spawn: Some(SpawnSeen {
            call: call.to_owned(),
            parent: None,
            name: Some(name.to_owned()),
            kind: Some(kind.to_owned()),
            background,
        }),
    }
}

pub fn subagent_started(work_id: &str, kind: Option<&str>, parent: Option<&str>) -> Seen {
    Seen::SubagentStarted {
        work_id: work_id.to_owned(),
        kind: kind.map(str::to_owned),
        name: None,
        parent: parent.map(str::to_owned),
        call: None,
    }
}

pub fn call_ended(call: &str) -> Seen {
    Seen::CallEnded { call: call.to_owned(), ok: true, subagent: None }
}

pub fn cancelled(subagent: Option<&str>) -> Seen {
    Seen::TurnCancelled { subagent: subagent.map(str::to_owned) }
}

pub fn turn_ended(subagent: Option<&str>) -> Seen {
    Seen::TurnEnded { subagent: subagent.map(str::to_owned) }
}

pub fn surface(name: &str, remote: bool) -> Command {
    Command::AttachSurface {
        surface: SurfaceId(name.to_owned()),
        info: SurfaceInfo { name: name.to_owned(), remote, scope: Scope::All, capacity: None },
    }
}

/// Short forms of what tests do most.
impl World {
    pub fn raise(&mut self, raise: &Raise) -> AskId {
        match self.run(&Command::Raise(Box::new(raise.clone()))) {
            Ok(Reply::Raised(id) | Reply::Reattached(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&mut self, ask: AskId, decision: Decision) -> Result<Reply, Refusal> {
        let digest = self.ask(ask).ask.digest;
        self.run(&Command::Answer(answer(ask, digest, decision)))
    }

    pub fn answer_with(
        &mut self,
        ask: AskId,
        decision: Decision,
        with: impl FnOnce(&mut Answer),
    ) -> Result<Reply, Refusal> {
        let mut answer = answer(ask, self.ask(ask).ask.digest, decision);
        with(&mut answer);
        self.run(&Command::Answer(answer))
    }

    pub fn see(&mut self, in_session: &str, what: Seen) {
        self.run(&seen(in_session, what)).unwrap();
    }

    pub fn close(&mut self, raise: &Raise) {
        self.run(&Command::LinkClosed { link: raise.link }).unwrap();
    }

    pub fn handed(&mut self, ask: AskId) -> Result<Reply, Refusal> {
        let token = self.ask(ask).ask.requester.token;
        self.run(&Command::Handed { ask, token })
    }

    pub fn confirmed(&mut self, ask: AskId) -> Result<Reply, Refusal> {
        let token = self.ask(ask).ask.requester.token;
        self.run(&Command::Confirmed { ask, token })
    }

    pub fn withdraw(&mut self, ask: AskId, cause: askd_core::Cause) -> Result<Reply, Refusal> {
        let token = self.ask(ask).ask.requester.token;
        self.run(&Command::Withdraw { ask, token, cause })
    }
}
