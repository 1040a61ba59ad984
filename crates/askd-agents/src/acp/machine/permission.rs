//! `session/request_permission`: the agent's own asks and those that it forwards for its children.

use askd_wire::{Action as WireAction, Attendance, Class, OwnPrompt, RaiseAsk, Subagent};
use serde_json::value::RawValue;

use super::super::Errand;
use super::super::ask::{Call, FxMark, Permission, choices, is_clients_alone};
use super::super::message::{self, Id};
use super::super::raw::Object;
use super::slot::{Askd, Dialog, Form, Origin, Show, Slot, State};
use super::{Dialect, Held, Machine};
use crate::hidden::LOOP;
use crate::proxy::{AskNo, plain_ask};

/// How long an ask of ours waits for this proxy to come back after its connection broke.
const LINK_GRACE_SECS: u64 = 60;

/// Who asks, when a child does.
#[derive(Debug, Clone)]
pub(super) struct ChildAsk {
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) work: String,
    pub(super) depth: Option<u32>,
    pub(super) background: bool,
}

/// What is raised at askd.
pub(super) struct Question<'a> {
    pub(super) no: u64,
    pub(super) session: &'a str,
    pub(super) call: &'a Call,
    pub(super) call_id: &'a str,
    pub(super) child: Option<&'a ChildAsk>,
    pub(super) cwd: Option<String>,
    pub(super) slot: &'a Slot,
}

/// The agent's request with another title.
#[derive(Debug)]
struct Retold {
    id: Id,
    params: String,
    /// Name of the child, where the title does not have it.
    name: Option<String>,
}

impl Show for Retold {
    fn lines(&self, timed: Option<&str>) -> Vec<Vec<u8>> {
        let params = timed.and_then(|timed| {
            let mut params = Object::parse(&self.params)?;
            let mut call = params.object("toolCall");
            let title = call.text("title").unwrap_or_default();
            let name = self.name.as_ref().map(|name| format!("[{name}] ")).unwrap_or_default();
            call.set_text("title", format!("{name}{title} ({timed})").trim_start());
            let call = call.to_string();
            params.set("toolCall", call);
            Some(params.to_string())
        });
        let params = params.as_deref().unwrap_or(&self.params);
        vec![message::request(self.id.text(), "session/request_permission", params)]
    }
}

impl Machine {
    pub(super) fn asked(&mut self, id: Id, params: &str, line: Vec<u8>) {
        let Some(permission) = Permission::parse(params) else {
            self.log("a permission request that askd cannot read goes on as it is".to_owned());
            return self.tell_client(line);
        };
        let session = permission.session.clone();
        if self.is_cancelling(&session) {
            self.log("an ask of a turn that was cancelled is not shown".to_owned());
            return self.tell_agent(message::response(&id, Form::Permission.cancelled()));
        }
        // What the request does not say was told when the call began.
        let known = self.sessions.get(&session).and_then(|s| s.calls.get(&permission.call.id));
        let announced = known.is_some();
        let mut call = known.cloned().unwrap_or_default();
        call.update(permission.call.clone());
        call.id.clone_from(&permission.call.id);
        let is_loop = self.dialect == Dialect::OpenCode && is_loop(&call);
        if is_loop {
            call.name = Some(LOOP.to_owned());
        }
        let child = self.child_of(&permission, announced);
        let root = self.root_of(&session);
        let translated = self.translates() && self.is_child(&session);

        let mark = match (&permission.fx, &child) {
            (None, Some(child)) if translated || !self.is_child(&session) => {
                Some(self.mark(&permission, child, translated))
            }
            _ => None,
        };
        let shown = mark.map(|mark| self.marked(&id, params, &mark, child.as_ref(), translated));
        let (shown_on, shown_call) = if translated {
            (root.clone(), format!("{session}/{}", permission.call.id))
        } else {
            (session.clone(), permission.call.id.clone())
        };
        let no = self.number();
        self.by_agent_id.insert(id.key(), no);
        let times = child.as_ref().is_some_and(|child| child.background) && !self.client.gone;
        let params = shown.as_ref().map_or(params, |(params, _)| params);
        let show: Option<Box<dyn Show>> = times.then(|| {
            let name = child.as_ref().and_then(|child| child.name.clone()).filter(|_| !translated);
            Box::new(Retold { id: id.clone(), params: params.to_owned(), name }) as Box<dyn Show>
        });
        let line = shown.as_ref().map_or(line, |(_, line)| line.clone());
        let alone = is_clients_alone(&permission.options);
        let slot = Slot {
            origin: Origin::Request(id),
            form: Form::Permission,
            session: session.clone(),
            root,
            shown_on,
            shown_call,
            call: permission.call.id.clone(),
            work: child.as_ref().map(|child| child.work.clone()),
            title: call.title.clone().unwrap_or_else(|| call.id.clone()),
            options: permission.options,
            dialog: if self.client.gone {
                Dialog::Closed
            } else if times {
                Dialog::Waiting
            } else {
                Dialog::Open
            },
            askd: if alone { Askd::Off } else { Askd::Raising },
            state: State::Open,
            left: None,
            failed: false,
            shown: false,
            responded: false,
            look_at: None,
            runs: false,
            elsewhere: None,
            on_its_way: false,
            lost_since: None,
            tell_shown: !self.client.gone,
            show,
        };
        let cwd = self.sessions.get(&session).and_then(|s| s.cwd.clone());
        let raise = self.question(&Question {
            no,
            session: &session,
            call: &call,
            call_id: &permission.call.id,
            child: child.as_ref(),
            cwd,
            slot: &slot,
        });
        // No rule and no skipping answers whether a loop may go on.
        let raise = RaiseAsk { class: if is_loop { Class::Safety } else { raise.class }, ..raise };
        self.put(no, slot);
        // The agent's own ask is not askd's to delay, but for the moment in which its timer becomes known.
        if times && self.held.is_none() {
            self.held = Some(Held { ask: no, since: self.now, line, behind: Vec::new() });
        } else {
            if let Some(slot) = self.asks.get_mut(&no) {
                slot.shown = true;
                if slot.dialog == Dialog::Waiting {
                    (slot.dialog, slot.show) = (Dialog::Open, None);
                }
            }
            self.tell_client(line);
        }
        self.errand(Errand::Raise { ask: no, raise: Box::new(raise) });
    }

    /// The line that was held goes out, with its deadline when it is known, and everything behind it.
    pub(super) fn release_held(&mut self) {
        self.release_held_with(None);
    }

    pub(super) fn release_held_with(&mut self, timed: Option<&str>) {
        let Some(held) = self.held.take() else { return };
        if let Some(slot) = self.asks.get_mut(&held.ask).filter(|slot| !slot.is_done()) {
            if slot.dialog == Dialog::Waiting {
                slot.dialog = Dialog::Open;
            }
            slot.shown = true;
            let show = slot.show.take();
            match show.filter(|_| timed.is_some()) {
                Some(show) => {
                    for line in show.lines(timed) {
                        self.tell_client(line);
                    }
                }
                None => self.tell_client(held.line),
            }
        }
        for line in held.behind {
            self.tell_client(line);
        }
    }

    /// Whether a child asks, and which.
    fn child_of(&self, permission: &Permission, announced: bool) -> Option<ChildAsk> {
        let session = &permission.session;
        let spawned_by = |work: &str, at: &str| {
            let spawn = self.sessions.get(at).and_then(|s| s.calls.get(work));
            let background = spawn.is_some_and(|call| {
                call.is_over()
                    || call
                        .input
                        .as_deref()
                        .and_then(Object::parse)
                        .is_some_and(|input| input.get("run_in_background") == Some("true"))
            });
            let (description, kind) = spawn.map(Call::spawned).unwrap_or_default();
            (description.or_else(|| spawn.and_then(|call| call.title.clone())), kind, background)
        };
        if let Some(FxMark { session: child, work, .. }) = &permission.fx {
            let (name, kind, background) = spawned_by(work, session);
            let work = if work.is_empty() { child.clone() } else { work.clone() };
            return (!work.is_empty()).then_some(ChildAsk { name, kind, work, depth: None, background });
        }
        if self.is_child(session) {
            let known = self.sessions.get(session);
            let parent = known.and_then(|s| s.parent.clone()).unwrap_or_default();
            let (name, kind, background) = match &permission.claude_parent {
                Some(work) => spawned_by(work, &parent),
                None => (None, None, false),
            };
            return Some(ChildAsk {
                name: known.and_then(|s| s.title.clone()).or(name),
                kind: kind.or_else(|| known.and_then(|s| s.kind.clone())),
                work: permission.claude_parent.clone().unwrap_or_else(|| session.clone()),
                depth: Some(self.depth(session)),
                background,
            });
        }
        if let Some(work) = &permission.claude_parent {
            let (name, kind, background) = spawned_by(work, session);
            return Some(ChildAsk { name, kind, work: work.clone(), depth: None, background });
        }
        // Its main thread announces every call; elicitations have no call.
        let unannounced =
            self.dialect == Dialect::Codex && !announced && !permission.call.id.starts_with("elicitation-");
        unannounced.then(|| ChildAsk {
            name: Some("subagent".to_owned()),
            kind: None,
            work: "subagent".to_owned(),
            depth: None,
            background: false,
        })
    }

    fn mark(&self, permission: &Permission, child: &ChildAsk, translated: bool) -> FxMark {
        let session = if translated {
            permission.session.clone()
        } else if self.dialect == Dialect::Codex {
            // Codex tells neither the child's session nor the call that started it.
            format!("{}:subagent", permission.session)
        } else {
            child.work.clone()
        };
        FxMark { session, work: child.work.clone(), call: permission.call.id.clone() }
    }

    /// The request with the mark, for a client that has no child sessions: its params, and the line.
    fn marked(
        &self,
        id: &Id,
        params: &str,
        mark: &FxMark,
        child: Option<&ChildAsk>,
        translated: bool,
    ) -> (String, Vec<u8>) {
        let mut params = Object::parse(params).unwrap_or_default();
        let meta = fx_meta(params.object("_meta"), mark);
        params.set("_meta", meta);
        if translated {
            let mut call = params.object("toolCall");
            call.set_text("toolCallId", &format!("{}/{}", mark.session, mark.call));
            let title = call.text("title").unwrap_or_else(|| mark.call.clone());
            let name = child.and_then(|child| child.name.as_deref()).unwrap_or("subagent");
            call.set_text("title", &format!("[{name}] {title}"));
            let call = call.to_string();
            params.set("toolCall", call);
            params.set_text("sessionId", &self.root_of(&mark.session));
        }
        let params = params.to_string();
        let line = message::request(id.text(), "session/request_permission", &params);
        (params, line)
    }

    /// The ask as askd gets it.
    pub(super) fn question(&self, q: &Question<'_>) -> RaiseAsk {
        let tool = q.call.name.clone().or_else(|| q.call.kind.clone()).filter(|name| !name.is_empty());
        let alone = is_clients_alone(&q.slot.options);
        let action = WireAction {
            tool: tool.unwrap_or_else(|| "tool".to_owned()),
            kind: q.call.kind.clone(),
            title: q.call.title.clone(),
            input: q.call.action_input().and_then(|text| RawValue::from_string(text).ok()),
            cwd: q.cwd.clone(),
        };
        let raise = RaiseAsk {
            tool_call: (!q.call_id.is_empty()).then(|| q.call_id.to_owned()),
            options: choices(&q.slot.options),
            own_prompt: alone.then(|| OwnPrompt { at: self.client.name.clone(), blocked: false }),
            needs_own_prompt: alone,
            ..plain_ask(self.key(q.no), &self.agent, q.session, action)
        };
        self.placed(raise, &q.slot.root, q.child)
    }

    /// The requester's own name of an ask.
    pub(super) fn key(&self, no: AskNo) -> String {
        format!("{}-{no}", self.settings.mark)
    }

    /// The ask with what is known around it: its session, its child, its turn, whether a person is there.
    pub(super) fn placed(&self, raise: RaiseAsk, root: &str, child: Option<&ChildAsk>) -> RaiseAsk {
        let known = self.sessions.get(&raise.session);
        let in_background = self.client.gone || child.is_some_and(|child| child.background);
        RaiseAsk {
            attendance: Some(if in_background { Attendance::Background } else { Attendance::Foreground }),
            parent: known.and_then(|s| s.parent.clone()),
            root: Some(root.to_owned()),
            subagent: child.map(|child| Subagent {
                name: child.name.clone(),
                kind: child.kind.clone(),
                work_id: child.work.clone(),
                depth: child.depth,
            }),
            turn: self.sessions.get(root).map(|s| s.turn.to_string()),
            session_title: known.and_then(|s| s.title.clone()),
            grace_secs: LINK_GRACE_SECS,
            instance: self.settings.instance.clone(),
            ..raise
        }
    }
}

/// opencode's own question whether a loop may go on: it has the id of the ask for a call, and this name for a title. A
/// call that only looks like it is asked about more strictly.
fn is_loop(call: &Call) -> bool {
    call.id.starts_with("per_") && call.title.as_deref() == Some(LOOP)
}

/// `_meta` with `fx.subagent` in it, beside what is there.
pub(super) fn fx_meta(mut meta: Object<'_>, mark: &FxMark) -> String {
    let mut subagent = Object::default();
    subagent.set_text("sessionId", &mark.session);
    subagent.set_text("workId", &mark.work);
    subagent.set_text("toolCallId", &mark.call);
    let mut fx = meta.object("fx");
    fx.set("subagent", subagent.to_string());
    let fx = fx.to_string();
    meta.set("fx", fx);
    meta.to_string()
}
