//! The answer socket as the command line and other surfaces use it: one thin function per route.

use std::time::Duration;

use askd_wire::{
    Answer, AnswerReport, Ask, BulkAnswer, Health, LogEntry, NamedAnswer, PermissionsCommand,
    PermissionsText, PermissionsView, RegisterSurface, Registered, SessionView, SurfaceReport, WithdrawAsk,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::daemon;
use crate::error::{CallError, Unavailable};
use crate::events::Events;
use crate::http::Connection;
use crate::places::Places;

/// No answer of the daemon takes longer than one commit; a hung one is told, not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A person's connection to a daemon that runs.
#[derive(Debug)]
pub struct Answers {
    connection: Connection,
}

impl Answers {
    /// Connects; starts nothing.
    pub fn connect(places: &Places) -> Result<Self, Unavailable> {
        Ok(Self::over(daemon::connect_answer(places)?))
    }

    /// Over a connection that is there already, e.g. of [`daemon::connect_or_start`].
    pub fn over(connection: Connection) -> Self {
        Self { connection }
    }

    /// Open asks, oldest first; `all`: the settled ones of the retention time too.
    pub fn list(&mut self, all: bool) -> Result<Vec<Ask>, CallError> {
        self.get(if all { "/v1/asks?state=all" } else { "/v1/asks?state=open" })
    }

    /// One ask by id or handle.
    pub fn show(&mut self, id: &str) -> Result<Ask, CallError> {
        self.get(&format!("/v1/asks/{}", escape(id)))
    }

    /// The same two as a registered surface may see them.
    pub fn list_on(&mut self, surface: &str) -> Result<Vec<Ask>, CallError> {
        self.get(&format!("/v1/asks?state=open&surface={}", escape(surface)))
    }

    pub fn show_on(&mut self, id: &str, surface: &str) -> Result<Ask, CallError> {
        self.get(&format!("/v1/asks/{}?surface={}", escape(id), escape(surface)))
    }

    /// Answers one ask; an error of `CallError::Refused` says why this call did not settle it.
    pub fn answer(&mut self, id: &str, answer: &Answer) -> Result<Ask, CallError> {
        self.post(&format!("/v1/asks/{}/answer", escape(id)), answer)
    }

    /// The same for a remote surface that knows who answered. `by`: their name, for people.
    pub fn answer_by(&mut self, id: &str, answer: &Answer, by: &str) -> Result<Ask, CallError> {
        let named = NamedAnswer { answer: answer.clone(), by: Some(by.to_owned()) };
        self.post(&format!("/v1/asks/{}/answer", escape(id)), &named)
    }

    /// Answers several, each with a report of its own.
    pub fn answer_all(&mut self, answers: &[BulkAnswer]) -> Result<Vec<AnswerReport>, CallError> {
        self.post("/v1/answers", answers)
    }

    /// Withdraws an ask: nobody decides it.
    pub fn withdraw(&mut self, id: &str, cause: &str) -> Result<(), CallError> {
        let body = WithdrawAsk { cause: cause.to_owned() };
        self.connection.set_timeout(PATIENCE);
        self.connection.command("POST", &format!("/v1/asks/{}/withdraw", escape(id)), Some(&body))
    }

    pub fn sessions(&mut self) -> Result<Vec<SessionView>, CallError> {
        self.get("/v1/sessions")
    }

    /// The decision log, oldest first. `since`: RFC 3339 time; `session`: only this one.
    pub fn log(&mut self, since: Option<&str>, session: Option<&str>) -> Result<Vec<LogEntry>, CallError> {
        let mut target = "/v1/log".to_owned();
        for (name, value) in [("since", since), ("session", session)] {
            if let Some(value) = value {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(name);
                target.push('=');
                target.push_str(&escape(value));
            }
        }
        self.get(&target)
    }

    pub fn health(&mut self) -> Result<Health, CallError> {
        self.get("/healthz")
    }

    /// The same, with only those surfaces counted that show the asks of one root, `<agent>/<session>`.
    pub fn health_of(&mut self, root: &str) -> Result<Health, CallError> {
        self.get(&format!("/healthz?root={}", escape(root)))
    }

    /// What happens without a person, for asks made now. `session`: `<agent>/<id>`; none: every session.
    pub fn permissions(&mut self, session: Option<&str>) -> Result<PermissionsView, CallError> {
        match session {
            Some(session) => self.get(&format!("/v1/permissions?session={}", escape(session))),
            None => self.get("/v1/permissions"),
        }
    }

    /// A `/permissions …` or `/skip-permissions …` line as a person typed it; gives the reply, safe lines.
    pub fn permissions_command(&mut self, text: &str, session: Option<&str>) -> Result<String, CallError> {
        let body =
            PermissionsCommand { text: text.to_owned(), session: session.map(str::to_owned), surface: None };
        let reply: PermissionsText = self.post("/v1/permissions/command", &body)?;
        Ok(reply.text)
    }

    /// Lets a setting that waits into force.
    pub fn accept(&mut self, loosening: &askd_wire::Loosening) -> Result<(), CallError> {
        self.connection.set_timeout(PATIENCE);
        self.connection.command("POST", "/v1/config/accept", Some(loosening))
    }

    /// Registers a surface; it is attached while its [`Answers::events`] stream is open.
    pub fn register(&mut self, surface: &RegisterSurface) -> Result<Registered, CallError> {
        self.post("/v1/surfaces", surface)
    }

    /// Says that a surface showed an ask, or could not.
    pub fn report(&mut self, surface: &str, report: &SurfaceReport) -> Result<(), CallError> {
        self.connection.set_timeout(PATIENCE);
        self.connection.command("POST", &format!("/v1/surfaces/{}/report", escape(surface)), Some(report))
    }

    /// Turns the connection into the event stream of a registered surface, or of nobody.
    pub fn events(self, surface: Option<&str>, after: Option<u64>) -> Result<Events, CallError> {
        match surface {
            Some(surface) => self.stream(&format!("/v1/events?surface={}", escape(surface)), after),
            None => self.stream("/v1/events", after),
        }
    }

    /// The event stream of nobody, with secrets covered as surfaces of kind remote get it.
    pub fn events_masked(self) -> Result<Events, CallError> {
        self.stream("/v1/events?masked=true", None)
    }

    fn stream(mut self, target: &str, after: Option<u64>) -> Result<Events, CallError> {
        self.connection.set_timeout(PATIENCE);
        let mut events = self.connection.events(target, after)?;
        events.set_deadline(None);
        Ok(events)
    }

    /// Any other route that answers JSON.
    pub fn get<T: DeserializeOwned>(&mut self, target: &str) -> Result<T, CallError> {
        self.connection.set_timeout(PATIENCE);
        self.connection.call("GET", target, None::<&()>)
    }

    /// Any other route that takes and answers JSON.
    pub fn post<T: DeserializeOwned>(
        &mut self,
        target: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, CallError> {
        self.connection.set_timeout(PATIENCE);
        self.connection.call("POST", target, Some(body))
    }
}

/// Percent-encodes everything that could mean something in a request target.
pub(crate) fn escape(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_handle_cannot_reach_another_route() {
        assert_eq!(super::escape("../k7f?x=1\r\n é"), "..%2Fk7f%3Fx%3D1%0D%0A%20%C3%A9");
    }
}
