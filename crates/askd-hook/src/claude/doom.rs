//! A call that repeats itself: asks whether it may go on, and really stops the turn when it may not.
//!
//! | outcome | what Claude is told |
//! |---|---|
//! | allowed | nothing: the call goes on as every other one |
//! | denied | the call is denied and the turn ends |
//! | open only for Claude's own prompt | to ask, with the reason |
//! | withdrawn, or anything that is wrong | nothing |
//!
//! A hook that runs before a call stops the turn in 2.1.332 by a denial together with `continue: false`. In 2.1.197 the
//! model is called again all the same; there the turn ends when `PostToolBatch` says so, before the model is called.

use askd_client::{Places, Unavailable};
use askd_wire::{Action, Ask, AskState, Choice, ChoiceKind, Class, LoopSeen, Outcome, OwnPrompt, Verdict};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::claude::around::{Around, Front};
use crate::claude::child::Child;
use crate::claude::event::Event;
use crate::claude::raise::{Subject, raise};
use crate::claude::thread::{Repeated, Then, Thread, signature};
use crate::claude::{TELL_PATIENCE, hand_back, nonce, print, wait};

/// Name of the action in the ask.
const TOOL: &str = "doom_loop";

/// Input of the action: what a person has to know.
#[derive(Serialize)]
struct Input<'a> {
    repeated_call: Call<'a>,
    /// How often its batch was made in a row, this time included.
    times: u32,
    /// When the first of them began.
    since: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    tool: &'a str,
    input: &'a RawValue,
}

/// Whether the call that the daemon found to repeat itself is this one. The batches before are known whole here, with the
/// calls that never started, which the daemon does not hear of.
pub(crate) fn is_loop(event: &Event<'_>, seen: &LoopSeen, thread: &Thread) -> bool {
    event.tool_use_id.as_ref() == Some(&seen.call) && thread.equal_batches() >= 2
}

/// Asks and waits; prints what Claude has to do.
pub(crate) fn ask(
    event: &Event<'_>,
    around: &Around,
    places: Places,
    child: &Child,
    thread: &Thread,
    seen: &LoopSeen,
    patience_secs: u64,
) -> Result<(), String> {
    let tool = event.tool_name.as_deref().ok_or("PreToolUse without tool_name")?;
    let input = event.tool_input.ok_or("PreToolUse without tool_input")?;
    let front = around.front();
    let subject = subject(event, front, tool, input, seen)?;
    let raise = raise(event, around, front, child, subject, nonce()?, patience_secs);
    let (result, mut asker) = wait(&raise, around, places, None)?;
    let (settled, own_prompt) = match result {
        Ok(ask) => {
            let open = ask.state == AskState::Open;
            (ask, open)
        }
        Err(Unavailable::GaveUp(Some(ask))) => {
            hand_back(&ask, &mut asker)?;
            (*ask, true)
        }
        Err(Unavailable::Released) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let then = match own_prompt {
        true if front == Front::Terminal => Then::OwnPrompt,
        // There is no prompt of Claude's own.
        true => return Ok(()),
        false => {
            let sent = raise.action.input.as_deref().map(RawValue::get);
            match verdict(&settled, sent)? {
                Some(then) => then,
                None => return Ok(()),
            }
        }
    };
    let line = match &then {
        Then::GoOn => None,
        Then::OwnPrompt => {
            Some(before_call("ask", &format!("askd: {}. Let it continue?", title(tool, seen)), ""))
        }
        Then::Stop(why) => Some(before_call("deny", why, &format!(",{}", stop(&title(tool, seen), why)))),
    };
    let repeated = Repeated {
        call: seen.call.clone(),
        signature: signature(tool, input.get()),
        title: title(tool, seen),
        turn: event.prompt_id.clone(),
        then,
    };
    let kept = thread.remember(&repeated);
    if let Some(line) = line {
        print(&line).map_err(|error| format!("the decision could not be printed: {error}"))?;
    }
    if repeated.then != Then::OwnPrompt {
        asker.tell(&settled.id, "handed", None, TELL_PATIENCE).map_err(|error| error.to_string())?;
    }
    kept.map_err(|error| format!("what was decided could not be kept: {error}"))
}

/// The end of a batch: it is counted, and the turn ends when that was decided before one of its calls.
pub(crate) fn batch_ended(event: &Event<'_>, thread: &Thread) -> Result<(), String> {
    let counted = thread.batch_ended(&event.tool_calls);
    if let Some(repeated) = thread.repeated() {
        thread.forget_repeated();
        let is_in_it = event.tool_calls.iter().any(|call| call.tool_use_id == repeated.call);
        if let (true, Then::Stop(why)) = (is_in_it, &repeated.then) {
            print(&format!("{{{}}}\n", stop(&repeated.title, why)))
                .map_err(|error| format!("the end could not be printed: {error}"))?;
        }
    }
    counted.map_err(|error| format!("the end of a batch could not be kept: {error}"))
}

fn subject(
    event: &Event<'_>,
    front: Front,
    tool: &str,
    input: &RawValue,
    seen: &LoopSeen,
) -> Result<Subject, String> {
    let shown = Input { repeated_call: Call { tool, input }, times: seen.times, since: &seen.since };
    Ok(Subject {
        action: Action {
            tool: TOOL.to_owned(),
            kind: None,
            title: Some(title(tool, seen)),
            input: Some(to_raw_value(&shown).map_err(|error| error.to_string())?),
            cwd: event.cwd.clone(),
        },
        class: Class::Safety,
        options: vec![
            Choice::plain("allow_once", "Let it continue", ChoiceKind::AllowOnce),
            Choice::plain("reject_once", "Stop the turn", ChoiceKind::RejectOnce),
        ],
        call: event.tool_use_id.clone(),
        // It comes only when this hook has ended. What a host answers by itself is no person's word on a repetition.
        own_prompt: (front == Front::Terminal)
            .then(|| OwnPrompt { at: "terminal".to_owned(), blocked: true }),
        needs_own_prompt: false,
    })
}

fn title(tool: &str, seen: &LoopSeen) -> String {
    format!("{tool} with the same input {} times in a row", seen.times)
}

/// What follows from the outcome; `None`: no opinion.
fn verdict(ask: &Ask, sent: Option<&str>) -> Result<Option<Then>, String> {
    let Some(outcome) = &ask.outcome else { return Ok(None) };
    // An outcome for other content than was asked about is no outcome.
    if ask.action.tool != TOOL || ask.action.input.as_deref().map(RawValue::get) != sent {
        return Err("the daemon's outcome is for other content than was asked about".to_owned());
    }
    Ok(match outcome.verdict {
        Verdict::None => None,
        Verdict::Allow => Some(Then::GoOn),
        Verdict::Deny => Some(Then::Stop(reason(outcome))),
    })
}

/// Why it stops: true, and the same words for the model and for the person.
fn reason(outcome: &Outcome) -> String {
    match outcome.cause.as_str() {
        "person" => {
            let declined = "the user declined to let it continue";
            match outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
                Some(words) => format!("{declined}: {words}"),
                None => declined.to_owned(),
            }
        }
        "timed" | "overflow" | "remote_timeout" => "no answer arrived before the deadline".to_owned(),
        "unreachable" => "this context has no way to ask for confirmation".to_owned(),
        _ => outcome.reason_for_model.clone().unwrap_or_else(|| outcome.text.clone()),
    }
}

fn before_call(decision: &str, reason: &str, more: &str) -> String {
    let reason = text(reason);
    format!(
        "{{\"hookSpecificOutput\":{{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"{decision}\",\
         \"permissionDecisionReason\":{reason}}}{more}}}\n"
    )
}

/// Ends the turn, with words for the person.
fn stop(title: &str, why: &str) -> String {
    format!("\"continue\":false,\"stopReason\":{}", text(&format!("{title}: {why}")))
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
