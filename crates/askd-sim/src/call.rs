//! One tool call, from its announcement until it ran or did not, and why.

use askd_core::ask::{Attendance, Choice, ChoiceKind, Class, OwnPrompt, RequesterKind, Subagent};
use askd_core::command::{Raise, Seen};
use askd_core::event::CallInfo;
use askd_core::{AskId, Hash256, LinkId, Verdict};
use serde_json::Map;

use crate::agent::{After, Call, Phase, Wanted, action};
use crate::plan::AgentKind;
use crate::story::tell;
use crate::world::{Happening, Tell, World};

impl World {
    pub(crate) fn call_begins(&mut self, a: usize, life: u64, turn: u32, wanted: Wanted) {
        let agent = &mut self.agents[a];
        if !agent.alive || agent.life != life || agent.turn != turn {
            return;
        }
        agent.planned = agent.planned.saturating_sub(1);
        let c = self.calls.len();
        let Wanted { thread, action: what, id } = wanted;
        let id = id.unwrap_or_else(|| format!("c{c}"));
        let digest = action(what).digest();
        self.calls.push(Call {
            agent: a,
            life,
            turn,
            thread: thread.clone(),
            id: id.clone(),
            action: what,
            digest,
            phase: Phase::Announced,
            requester: None,
            announced: None,
            own: None,
            ran_by: None,
        });
        tell!(self, None, "agent {} wants to run call {id}, action {what}", self.agents[a].key);
        if self.agents[a].kind == AgentKind::Script {
            self.ask_for(c);
            return;
        }
        let info = CallInfo { subagent: thread, tool: action(what).tool, digest, side: None };
        let turn = self.agents[a].tells_turns.then(|| format!("t{turn}"));
        let seen = Seen::CallStarted { call: id, info, batch: None, turn, spawn: None };
        self.observe(a, seen, After::Ask(c));
    }

    /// The agent needs a permission: a requester asks for it.
    pub(crate) fn ask_for(&mut self, c: usize) {
        let call = &mut self.calls[c];
        let agent = &self.agents[call.agent];
        if !agent.alive || agent.life != call.life {
            return;
        }
        call.phase = Phase::Asking;
        let raise = self.raise_for(c);
        let prompt = raise.own_prompt.as_ref().is_some_and(|own| !own.blocked);
        let r = self.add_requester(raise, c);
        self.calls[c].requester = Some(r);
        if prompt && self.dice.percent(40) {
            let after = self.dice.span(300, 600_000);
            self.soon(after, Happening::OwnPrompt { call: c });
        }
        if self.agents[self.calls[c].agent].kind == AgentKind::Host && self.chaos && self.dice.percent(5) {
            self.revise(c, r);
        }
    }

    /// The host thinks better of it: another call replaces this one, and names the ask that it replaces.
    fn revise(&mut self, c: usize, r: usize) {
        let Some(old) = self.own_newest(r).or_else(|| self.newest_of_agent(self.calls[c].agent)) else {
            return;
        };
        let call = &self.calls[c];
        let mut raise = self.requesters[r].raise.clone();
        let next = self.calls.len();
        raise.key = format!("c{next}");
        raise.call = Some(format!("c{next}"));
        raise.action = action(call.action + 1);
        raise.supersedes = Some(old);
        let successor = Call {
            id: format!("c{next}"),
            action: call.action + 1,
            digest: raise.action.digest(),
            phase: Phase::Asking,
            requester: None,
            thread: call.thread.clone(),
            ..*call
        };
        self.calls.push(successor);
        if self.call_of(old) == Some(c) {
            self.calls[c].phase = Phase::Dropped;
        }
        let r = self.add_requester(raise, next);
        self.calls[next].requester = Some(r);
    }

    fn newest_of_agent(&self, a: usize) -> Option<AskId> {
        let mine = self.ledger.files.values().filter(|f| f.ask.lineage.session == self.agents[a].key);
        mine.filter(|f| f.outcome.is_none()).max_by_key(|f| f.asked_at).map(|f| f.ask.id)
    }

    fn raise_for(&mut self, c: usize) -> Raise {
        let call = &self.calls[c];
        let agent = &self.agents[call.agent];
        let kind = agent.kind;
        let hook = matches!(kind, AgentKind::Terminal | AgentKind::Headless);
        let thread = agent.threads.iter().find(|t| Some(&t.work_id) == call.thread.as_ref()).cloned();
        let mut raise = Raise {
            // The daemon's own affair.
            id: AskId(uuid::Uuid::nil()),
            link: LinkId(0),
            key: call.id.clone(),
            token: Hash256::of(agent.key.to_string().as_bytes()),
            kind: RequesterKind::Library,
            action: action(call.action),
            class: Class::Tool,
            attendance: None,
            session: agent.key.clone(),
            parent: agent.parent.clone(),
            root: Some(self.ledger.line(&agent.key).pop().unwrap_or_else(|| agent.key.clone())),
            subagent: call.thread.clone().map(|work_id| Subagent {
                work_id,
                name: None,
                kind: None,
                depth: None,
                parent: None,
            }),
            job: None,
            call: (!hook && kind != AgentKind::Script).then(|| call.id.clone()),
            turn: agent.tells_turns.then(|| format!("t{}", call.turn)),
            title: None,
            options: Vec::new(),
            deadline_ms: None,
            gives_up_ms: None,
            grace_ms: 60_000,
            instance: Some(agent.instance.clone()),
            owner: Some(agent.owner()),
            own_prompt: None,
            needs_own_prompt: false,
            supersedes: None,
            place: None,
            extra: Map::new(),
        };
        let background = self.dice.percent(50);
        match kind {
            AgentKind::Terminal | AgentKind::Headless => {
                raise.kind = RequesterKind::Hook;
                raise.grace_ms = 0;
                let nonce = self.dice.uuid();
                raise.key = nonce.simple().to_string();
                raise.token = Hash256::of(nonce.as_bytes());
                raise.gives_up_ms =
                    Some(if self.dice.percent(70) { 600_000 } else { self.dice.span(5_000, 600_000) });
                if kind == AgentKind::Terminal {
                    let blocked = thread.as_ref().is_some_and(|t| t.background);
                    raise.own_prompt = Some(OwnPrompt { at: "terminal".to_owned(), blocked });
                    raise.needs_own_prompt = self.dice.percent(4);
                } else if background {
                    raise.attendance = Some(Attendance::Background);
                }
            }
            AgentKind::Host => {
                if self.dice.percent(40) {
                    raise.attendance = Some(Attendance::Background);
                }
                if self.dice.percent(15) {
                    raise.own_prompt = Some(OwnPrompt { at: "host".to_owned(), blocked: false });
                }
                if self.dice.percent(10) {
                    raise.class = Class::Safety;
                }
                if self.dice.percent(40) {
                    raise.options = options(self.dice.percent(20));
                }
                raise.grace_ms = if self.dice.percent(70) { 60_000 } else { self.dice.span(1, 120_000) };
            }
            AgentKind::Script => {
                raise.kind = RequesterKind::Script;
                raise.grace_ms = 0;
                raise.token = Hash256::of(raise.key.as_bytes());
                raise.attendance = Some(Attendance::Background);
                if self.dice.percent(60) {
                    raise.deadline_ms = Some(self.dice.span(1_000, 900_000));
                }
                if self.dice.percent(30) {
                    raise.class = Class::Safety;
                }
                if self.dice.percent(20) {
                    raise.gives_up_ms = Some(self.dice.span(1_000, 900_000));
                }
            }
        }
        raise
    }

    /// What a requester says about its call; with no opinion the agent is on its own.
    pub(crate) fn verdict(&mut self, c: usize, verdict: Verdict, ask: Option<AskId>) {
        if self.calls[c].phase != Phase::Asking {
            return;
        }
        match verdict {
            Verdict::Allow => {
                self.check_allowed(c, ask);
                self.counts.add("ran because it was allowed");
                self.calls[c].ran_by = ask;
                self.run_call(c);
            }
            Verdict::Deny => {
                self.check_denied(c, ask);
                self.counts.add("denied");
                self.over(c, Phase::Denied);
            }
            Verdict::None => self.on_its_own(c),
        }
    }

    fn on_its_own(&mut self, c: usize) {
        let r = self.calls[c].requester;
        if r.is_some_and(|r| self.requesters[r].raise.own_prompt.is_some()) {
            let after = self.dice.span(300, 120_000);
            self.soon(after, Happening::OwnPrompt { call: c });
        } else {
            // An agent without a prompt of its own does not run what nobody allowed.
            self.over(c, Phase::Dropped);
        }
    }

    /// The person answers in the agent's own prompt.
    pub(crate) fn own_prompt(&mut self, c: usize) {
        if self.calls[c].phase != Phase::Asking {
            return;
        }
        let allowed = self.dice.percent(60);
        tell!(self, self.ask_of(c), "own prompt of call {}: allowed {allowed}", self.calls[c].id);
        self.calls[c].own = Some(allowed);
        self.counts.add("own prompt answered");
        let a = self.calls[c].agent;
        let told_by = self.calls[c].requester.filter(|r| {
            let requester = &self.requesters[*r];
            requester.alive && !requester.is_hook()
        });
        if let Some(r) = told_by.filter(|_| self.dice.percent(50)) {
            self.counts.add("own side told that it decided");
            self.requesters[r].waiting = false;
            self.requesters[r].ask = self.own_newest(r);
            self.tell_daemon(r, Tell::Decided { allowed }, 0);
        } else if self.dice.percent(50) {
            let call = self.calls[c].id.clone();
            self.observe(a, Seen::OwnPromptAnswered { call, allowed }, After::Nothing);
        }
        // The hook is told to go; some take their time.
        if let Some(r) = self.calls[c].requester
            && self.requesters[r].is_hook()
        {
            let after = self.dice.span(1, 60_000);
            self.soon(after, Happening::Kill { requester: r });
        }
        if allowed {
            self.counts.add("ran by the own prompt");
            self.run_call(c);
        } else {
            self.over(c, Phase::Denied);
        }
    }

    fn run_call(&mut self, c: usize) {
        tell!(self, self.ask_of(c), "call {} runs", self.calls[c].id);
        self.calls[c].phase = Phase::Running;
        let after = self.dice.span(10, 200_000);
        self.soon(after, Happening::CallDone { call: c });
    }

    pub(crate) fn call_done(&mut self, c: usize) {
        if self.calls[c].phase != Phase::Running {
            return;
        }
        tell!(self, self.ask_of(c), "call {} ends", self.calls[c].id);
        self.over(c, Phase::Ran);
        let (a, call) = (self.calls[c].agent, self.calls[c].id.clone());
        if self.agents[a].kind != AgentKind::Script {
            self.observe(
                a,
                Seen::CallEnded { call, ok: true, subagent: self.calls[c].thread.clone() },
                After::Nothing,
            );
        }
        if let Some(r) = self.calls[c].requester
            && !self.requesters[r].is_hook()
            && self.requesters[r].alive
            && self.dice.percent(70)
        {
            self.tell_daemon(r, Tell::Confirmed, 0);
        }
    }

    fn over(&mut self, c: usize, phase: Phase) {
        self.calls[c].phase = phase;
        self.maybe_turn_over(self.calls[c].agent);
    }

    /// The process that asked is gone, the agent is not.
    pub(crate) fn requester_died(&mut self, c: usize) {
        if self.calls[c].phase != Phase::Asking {
            return;
        }
        let a = self.calls[c].agent;
        match self.agents[a].kind {
            AgentKind::Terminal => self.on_its_own(c),
            AgentKind::Headless | AgentKind::Script => {
                if self.dice.percent(60) {
                    // The model tries the same again.
                    let call = &self.calls[c];
                    let (life, turn) = (call.life, call.turn);
                    let wanted = Wanted { thread: call.thread.clone(), action: call.action, id: None };
                    self.agents[a].planned += 1;
                    let after = self.dice.span(100, 90_000);
                    self.soon(after, Happening::CallBegins { agent: a, life, turn, wanted });
                }
                self.over(c, Phase::Dropped);
            }
            AgentKind::Host => {
                if self.dice.percent(60)
                    && let Some(old) = self.calls[c].requester
                {
                    // The same call is asked for again, with the same key.
                    let raise = self.requesters[old].raise.clone();
                    let r = self.add_requester(raise, c);
                    self.calls[c].requester = Some(r);
                } else {
                    self.over(c, Phase::Dropped);
                }
            }
        }
    }

    pub(crate) fn ask_of(&self, c: usize) -> Option<AskId> {
        self.calls[c].requester.and_then(|r| self.requesters[r].ask.or_else(|| self.own_newest(r)))
    }
}

fn options(only_always: bool) -> Vec<Choice> {
    let choice = |id: &str, kind| Choice {
        id: id.to_owned(),
        label: id.to_owned(),
        kind,
        grants: None,
        payload: None,
    };
    let mut options =
        vec![choice("always", ChoiceKind::AllowAlways), choice("never", ChoiceKind::RejectAlways)];
    if !only_always {
        options.push(choice("yes", ChoiceKind::AllowOnce));
        options.push(choice("no", ChoiceKind::RejectOnce));
    }
    options
}
