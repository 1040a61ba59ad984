//! Approvals that are asked for as elicitations: Codex asks so whether a tool of an MCP server may run, and marks it.
//! An elicitation without the mark is a question to the person and none of our business.

use super::super::Errand;
use super::super::ask::{Call, Choosable};
use super::super::message::{self, Id};
use super::super::raw::Object;
use super::Machine;
use super::permission::Question;
use super::slot::{Askd, Dialog, Form, Origin, Slot, State};

/// The action that lets the tool run.
pub(super) const ACCEPT: &str = "accept";

/// What is read of a marked elicitation.
pub(super) struct Approval {
    session: String,
    message: String,
    tool: String,
    /// JSON text.
    input: Option<String>,
}

impl Approval {
    /// `None`: it has no mark, or no session.
    pub(super) fn read(params: &str) -> Option<Self> {
        let params = Object::parse(params)?;
        let meta = params.object("_meta");
        let nested = meta.object("codex");
        let meta = if meta.text("codex_approval_kind").is_some() { &meta } else { &nested };
        if meta.text("codex_approval_kind")? != "mcp_tool_call" {
            return None;
        }
        Some(Self {
            session: params.text("sessionId")?,
            message: params.text("message").unwrap_or_default(),
            tool: meta.text("tool_name").unwrap_or_else(|| "mcp".to_owned()),
            input: meta.get("tool_params").filter(|text| *text != "null").map(str::to_owned),
        })
    }
}

/// What the person may say. Granting more than this call is not offered: nobody asked for it in these words.
fn options() -> Vec<Choosable> {
    [(ACCEPT, "allow_once", "Allow once"), ("decline", "reject_once", "Decline")]
        .into_iter()
        .map(|(id, kind, name)| Choosable {
            option_id: id.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
        })
        .collect()
}

impl Machine {
    pub(super) fn approval_asked(&mut self, id: Id, approval: Approval, line: Vec<u8>) {
        let session = approval.session;
        if self.is_cancelling(&session) {
            return self.tell_agent(message::response(&id, Form::Elicitation.cancelled()));
        }
        let no = self.number();
        self.by_agent_id.insert(id.key(), no);
        let call = Call {
            id: format!("elicitation-{no}"),
            title: Some(approval.message.clone()),
            name: Some(approval.tool),
            input: approval.input,
            ..Call::default()
        };
        let slot = Slot {
            origin: Origin::Request(id),
            form: Form::Elicitation,
            session: session.clone(),
            root: self.root_of(&session),
            shown_on: session.clone(),
            shown_call: call.id.clone(),
            call: call.id.clone(),
            work: None,
            title: approval.message,
            options: options(),
            dialog: if self.client.gone { Dialog::Closed } else { Dialog::Open },
            askd: Askd::Raising,
            state: State::Open,
            left: None,
            failed: false,
            shown: true,
            responded: false,
            look_at: None,
            runs: false,
            elsewhere: None,
            on_its_way: false,
            lost_since: None,
            tell_shown: !self.client.gone,
            show: None,
        };
        let raise = self.question(&Question {
            no,
            session: &session,
            call: &call,
            call_id: &call.id,
            child: None,
            cwd: self.sessions.get(&session).and_then(|s| s.cwd.clone()),
            slot: &slot,
        });
        self.put(no, slot);
        self.tell_client(line);
        self.errand(Errand::Raise { ask: no, raise: Box::new(raise) });
    }
}
