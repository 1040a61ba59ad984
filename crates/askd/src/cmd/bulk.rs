//! `askd allow --all-background`, `askd deny --all-background`: every background ask that is open now, and no other.

use askd_client::{Answers, CallError};
use askd_wire::{Answer, AnswerReport, Ask, Attendance, BulkAnswer, Class, Decision};

use crate::cmd::answer::{SURFACE, Said, Shown, refused, worse};
use crate::confirm;
use crate::context::{Desk, who};
use crate::failure::{Done, Failure, status};
use crate::out::{self, Style, safe};
use crate::view::{self, Clock, outcome};

/// Answers in one request.
const MOST: usize = 500;

/// What a bulk answer is about, and what it leaves.
struct Chosen {
    asks: Vec<Ask>,
    /// A line for each ask that is left, and why.
    left: Vec<String>,
}

pub(crate) fn all_background(desk: &Desk, said: &Said, yes: bool) -> Done {
    let mut answers = desk.answers()?;
    let chosen = choose(answers.list(false)?, said.decision);
    for line in &chosen.left {
        out::tell(&format!("askd: {line}"));
    }
    if chosen.asks.is_empty() {
        let rest = if chosen.left.is_empty() { "no background ask is open" } else { "nothing else is open" };
        out::print_line(rest)?;
        return Ok(status::OK);
    }
    if !yes && !agreed(&mut answers, &chosen.asks, said)? {
        out::print_line("nothing was answered")?;
        return Ok(status::DENIED);
    }
    give(&mut answers, &chosen.asks, said)
}

/// A safety ask is allowed by itself or not at all, and so is one that cannot be shown in full. A deny takes all.
fn choose(open: Vec<Ask>, decision: Decision) -> Chosen {
    let mut chosen = Chosen { asks: Vec::new(), left: Vec::new() };
    for ask in open {
        if ask.attendance != Attendance::Background || !askd_words::is_answerable(&ask) {
            continue;
        }
        let handle = safe(&ask.handle);
        if decision == Decision::Allow && ask.class == Class::Safety {
            chosen.left.push(format!("{handle}: left open: a safety ask is not allowed with others"));
        } else if decision == Decision::Allow && !Shown::of(&ask).complete {
            chosen.left.push(format!("{handle}: left open: not all of it can be shown here"));
        } else {
            chosen.asks.push(ask);
        }
    }
    chosen
}

/// Shows what would be answered and asks back. What is to be allowed is shown in full.
fn agreed(answers: &mut Answers, asks: &[Ask], said: &Said) -> Result<bool, Failure> {
    let verb = match said.decision {
        Decision::Allow => "allow",
        Decision::Deny if said.stop => "deny and stop",
        Decision::Deny => "deny",
    };
    if !confirm::is_attended() {
        let handles: Vec<String> = asks.iter().map(|ask| safe(&ask.handle)).collect();
        return Err(Failure::wrong_use(format!(
            "this would {verb} {}. Nobody is at this terminal to say yes; add --yes, or name them",
            handles.join(", ")
        )));
    }
    let (who, clock, style) = (who(answers), Clock::system(), Style::of_stdout());
    let text = match said.decision {
        Decision::Allow => asks.iter().map(|ask| view::card(ask, &who, &clock, style) + "\n").collect(),
        Decision::Deny => view::asks(asks, &who, &clock, out::width(), style),
    };
    out::print(&text)?;
    confirm::confirmed(&format!("{verb} {}? (y/n) ", count(asks.len())))
}

fn count(asks: usize) -> String {
    if asks == 1 { "this 1 ask".to_owned() } else { format!("these {asks} asks") }
}

/// Exactly these, as they were shown. Whoever was first with one of them is named.
fn give(answers: &mut Answers, asks: &[Ask], said: &Said) -> Done {
    let mut worst = status::OK;
    for some in asks.chunks(MOST) {
        let bulk: Vec<BulkAnswer> = some.iter().map(|ask| bulk_answer(ask, said)).collect();
        let reports = answers.answer_all(&bulk)?;
        for ask in some {
            match told(ask, reports.iter().find(|report| report.id == ask.id)) {
                Ok(line) => out::print_line(&line)?,
                Err(failure) => {
                    out::tell(&format!("askd: {}", failure.text));
                    worst = worse(worst, failure.status);
                }
            }
        }
    }
    Ok(worst)
}

fn bulk_answer(ask: &Ask, said: &Said) -> BulkAnswer {
    BulkAnswer {
        id: ask.id.clone(),
        answer: Answer {
            decision: said.decision,
            digest: ask.digest.clone(),
            option: None,
            message: said.message.clone(),
            stop: said.stop,
            surface: Some(SURFACE.to_owned()),
        },
    }
}

fn told(ask: &Ask, report: Option<&AnswerReport>) -> Result<String, Failure> {
    let handle = safe(&ask.handle);
    match report.map(|report| (&report.problem, &report.ask)) {
        Some((Some(problem), _)) => {
            let error = CallError::Refused(Box::new(problem.clone()));
            Err(refused(&ask.handle, error, &Clock::system()))
        }
        Some((None, Some(settled))) => {
            Ok(format!("{handle}: {}", outcome::answered(settled, &Clock::system())))
        }
        _ => Err(Failure::unavailable(format!("{handle}: the daemon did not say what became of it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn t12_only_background_asks_are_chosen_and_an_allow_leaves_safety_asks() {
        let plain = samples::background();
        let mut foreground = plain.clone();
        foreground.attendance = Attendance::Foreground;
        let mut safety = plain.clone();
        (safety.class, safety.handle) = (Class::Safety, "s4f".to_owned());
        let mut handed_back = plain.clone();
        handed_back.requester.link = "handed_back".to_owned();
        let mut cut = plain.clone();
        (cut.display[0].complete, cut.handle) = (false, "c2t".to_owned());
        let open = vec![plain, foreground, safety, handed_back, cut];
        let handles = |chosen: &Chosen| chosen.asks.iter().map(|ask| ask.handle.clone()).collect::<Vec<_>>();

        let allow = choose(open.clone(), Decision::Allow);
        assert_eq!(handles(&allow), ["k7f"]);
        assert_eq!(allow.left.len(), 2);
        assert!(allow.left[0].contains("s4f: left open: a safety ask"), "{:?}", allow.left);
        assert!(allow.left[1].contains("c2t: left open: not all of it"), "{:?}", allow.left);
        let deny = choose(open, Decision::Deny);
        assert_eq!((handles(&deny), deny.left.len()), (["k7f", "s4f", "c2t"].map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn t12_an_ask_that_the_daemon_does_not_name_is_not_called_answered() {
        let ask = samples::background();
        assert_eq!(told(&ask, None).unwrap_err().status, status::UNAVAILABLE);
    }
}
