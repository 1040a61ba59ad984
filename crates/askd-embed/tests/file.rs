//! A host that is started again on its file.

#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

use std::os::unix::fs::PermissionsExt;

use askd_client::AskPort;
use askd_embed::{Embedded, Journal, settings};
use askd_wire::{Action, Answer, AskState, Class, Code, Decision, RaiseAsk, RequesterKind, Verdict};

fn ask(key: &str) -> RaiseAsk {
    let raise = serde_json::json!({
        "key": key, "agent": "host", "session": "s", "requester": "library", "grace_secs": 60,
        "action": {"tool": "Bash", "input": {"command": "touch a", "n": 1.50}},
    });
    let raise: RaiseAsk = serde_json::from_value(raise).unwrap();
    assert_eq!((raise.class, raise.requester), (Class::Tool, RequesterKind::Library));
    let action = Action {
        input: serde_json::value::RawValue::from_string("{ \"n\":1.50 }".to_owned()).ok(),
        ..raise.action
    };
    RaiseAsk { action, ..raise }
}

fn answer(digest: &str, decision: Decision) -> Answer {
    Answer { decision, digest: digest.to_owned(), option: None, message: None, stop: false, surface: None }
}

#[test]
fn c2_an_ask_and_its_answer_outlive_the_host() {
    let dir = tempfile::tempdir().unwrap();
    // As for every journal: in a directory that is this user's only.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let journal = Journal::File(dir.path().join("askd.sqlite"));
    let token = "0123456789abcdef0123456789abcdef";

    let askd = Embedded::open(&journal, settings()).unwrap();
    let surface = askd.surface("screen");
    let mut asker = askd.asker_with_token(token.to_owned());
    let (one, two) = (asker.raise(&ask("one")).unwrap().ask, asker.raise(&ask("two")).unwrap().ask);
    surface.answer(&two.id, answer(&two.digest, Decision::Allow)).unwrap();
    drop((asker, surface));
    askd.close();

    // Another process of the same file is refused while this one has it.
    let askd = Embedded::open(&journal, settings()).unwrap();
    assert!(Embedded::open(&journal, settings()).is_err());
    let surface = askd.surface("screen");
    let open = surface.receive().unwrap().ask;
    assert_eq!(
        (open.id.as_str(), open.state, open.digest.as_str()),
        (&*one.id, AskState::Open, &*one.digest)
    );
    let mut asker = askd.asker_with_token(token.to_owned());
    // What was answered is there at once, with the input byte for byte.
    let answered = asker.ask(&ask("two")).unwrap();
    assert_eq!(answered.outcome.map(|outcome| outcome.verdict), Some(Verdict::Allow));
    assert_eq!(answered.action.input.unwrap().get(), "{ \"n\":1.50 }");
    let pending = asker.pending(ask("one")).unwrap();
    surface.answer(&one.id, answer(&one.digest, Decision::Deny)).unwrap();
    let outcome = wait(pending).outcome.unwrap();
    assert_eq!((outcome.verdict, outcome.cause.as_str()), (Verdict::Deny, "person"));
    let refused = surface.answer(&one.id, answer(&one.digest, Decision::Allow)).unwrap_err();
    assert_eq!(refused.code, Code::AlreadySettled);
}

#[test]
fn s7_wrong_digests_unknown_asks_and_an_ended_askd_are_refusals() {
    let askd = Embedded::open(&Journal::Memory, settings()).unwrap();
    let surface = askd.surface("screen");
    let mut asker = askd.asker().unwrap();
    let one = asker.raise(&ask("one")).unwrap().ask;
    let wrong = |digest: &str| surface.answer(&one.id, answer(digest, Decision::Allow)).unwrap_err().code;
    assert_eq!(wrong("allow"), Code::Malformed);
    assert_eq!(wrong(&format!("sha256:{}", "0".repeat(64))), Code::DigestMismatch);
    assert_eq!(
        surface.answer("nobody", answer(&one.digest, Decision::Allow)).unwrap_err().code,
        Code::UnknownAsk
    );
    // Somebody else's ask.
    assert!(askd.asker().unwrap().look(&one.id).is_err());
    assert_eq!(askd.open_asks().len(), 1);
    askd.cancel("host", "s", false);
    assert!(askd.open_asks().is_empty());
    askd.close();
    assert!(asker.ask(&ask("two")).is_err(), "no decision");
    assert_eq!(
        surface.answer(&one.id, answer(&one.digest, Decision::Allow)).unwrap_err().code,
        Code::NotRecorded
    );
}

/// Polls a future as a runtime would.
fn wait(pending: askd_client::PendingAsk) -> askd_wire::Ask {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut pending = pin!(pending);
    loop {
        match pending.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    }
}
