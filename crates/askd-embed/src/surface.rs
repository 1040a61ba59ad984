//! Where the host shows asks and people answer them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use askd_core::command::{Answer as CoreAnswer, Command};
use askd_core::{Decision, Refusal, SurfaceId};
use askd_serve::problem;
use askd_wire::{Answer, Ask, Code, Problem};

use crate::desk::Message;

/// Something to show.
#[derive(Debug, Clone)]
pub struct Shown {
    /// `open` for what was there when the surface was attached; else the journal's name of what happened: `asked`,
    /// `settled`, `withdrawn`, `handed_back`, …
    pub what: &'static str,
    /// The ask as it is after that. `display` holds its safe lines: show those and never the raw input.
    pub ask: Ask,
}

/// An attached surface; detached when it is dropped. Every ask is told to it, whose session it may be.
#[derive(Debug)]
pub struct Surface {
    queue: Sender<Message>,
    id: SurfaceId,
    name: String,
    events: Receiver<Shown>,
}

impl Surface {
    pub(crate) fn attach(queue: Sender<Message>, name: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let id = SurfaceId(format!("embedded-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let (sender, events) = channel();
        let message = Message::Attach { surface: id.clone(), name: name.to_owned(), events: sender };
        // When askd has ended, its side of the channel is gone and the first receive says so.
        let _ = queue.send(message);
        Self { queue, id, name: name.to_owned(), events }
    }

    /// The next thing to show; `None`: askd has ended.
    pub fn receive(&self) -> Option<Shown> {
        self.events.recv().ok()
    }

    /// The same, within a time. `Ok(None)`: nothing happened; `Err(())`: askd has ended.
    #[expect(clippy::result_unit_err, reason = "there is nothing to say about it but that it ended")]
    pub fn receive_within(&self, span: Duration) -> Result<Option<Shown>, ()> {
        match self.events.recv_timeout(span) {
            Ok(shown) => Ok(Some(shown)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    /// Says that a person saw it.
    pub fn shown(&self, ask: &Ask) {
        if let Ok(ask) = ask.id.parse() {
            let command = Command::Shown { ask, surface: self.name.clone(), remote: false };
            let _ = self.queue.send(Message::Do { command: Box::new(command), reply: None, wait: None });
        }
    }

    /// A person's answer, with the digest of what was shown. The error says why this call did not settle the ask, and
    /// who was first.
    pub fn answer(&self, id: &str, answer: Answer) -> Result<Ask, Box<Problem>> {
        let digest = answer.digest.parse().map_err(|_| {
            let detail = "digest must be \"sha256:\" and 64 hexadecimal digits";
            Box::new(problem::new(400, Code::Malformed, detail))
        })?;
        let name = self.name.clone();
        let given = move |ask| CoreAnswer {
            ask,
            digest,
            decision: match answer.decision {
                askd_wire::Decision::Allow => Decision::Allow,
                askd_wire::Decision::Deny => Decision::Deny,
            },
            option: answer.option,
            message: answer.message,
            stop: answer.stop,
            surface: name,
            remote: false,
            by: None,
            refused: None,
        };
        let (reply, done) = channel();
        let message = Message::Answer { name: id.to_owned(), answer: Box::new(given), reply };
        let sent = self.queue.send(message).ok().and_then(|()| done.recv().ok());
        let refused = |refusal: &Refusal, shot| Err(Box::new(problem::of(refusal, shot)));
        match sent {
            None => refused(&Refusal::NotRecorded("askd in this host has ended".to_owned()), None),
            Some(None) => refused(&Refusal::UnknownAsk, None),
            Some(Some(done)) => match (done.reply, done.shot) {
                (Ok(_), Some(shot)) => Ok(shot.view()),
                (Ok(_), None) => refused(&Refusal::UnknownAsk, None),
                (Err(refusal), shot) => refused(&refusal, shot.as_ref()),
            },
        }
    }
}

impl Drop for Surface {
    fn drop(&mut self) {
        let command = Command::DetachSurface { surface: self.id.clone() };
        let _ = self.queue.send(Message::Do { command: Box::new(command), reply: None, wait: None });
    }
}
