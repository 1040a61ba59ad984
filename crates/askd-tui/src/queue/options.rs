//! The agent's own options: what an "always" would grant is read before it is chosen.

use askd_wire::{Choice, Decision};

use super::{Mode, Queue};
use crate::action::Action;
use crate::content::Reached;
use crate::guard::Target;
use crate::now::Now;
use crate::pager::Pager;
use crate::rows::{Look, Row, push_marked, wrap};
use crate::words;

/// Options that a digit can choose.
const MOST: usize = 9;

/// The panel of one ask's options.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) id: String,
    pub(crate) handle: String,
    pub(crate) choices: Vec<Choice>,
    /// More than digits can choose.
    pub(crate) left_out: usize,
    pub(crate) pager: Pager,
    /// How far the panel was read.
    pub(crate) reached: Reached,
}

impl Options {
    /// The panel as rows, each with its place in what must be read.
    pub(crate) fn rows(&self, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut at = 0;
        for (number, choice) in self.choices.iter().enumerate() {
            let kind = words::option_kind(choice.kind);
            let label = format!("{kind}: {}", words::one(&choice.label));
            let mut texts = vec![(label, Look::Plain)];
            texts.extend(words::grants(choice).map(|grants| (grants, Look::Warn)));
            for (line, (text, look)) in texts.into_iter().enumerate() {
                let parts = wrap(&text, columns.saturating_sub(4));
                for (part_number, part) in parts.into_iter().enumerate() {
                    let lead =
                        if (line, part_number) == (0, 0) { (number + 1).to_string() } else { String::new() };
                    let mut row = Row { from: at, ..Row::default() };
                    row.push(format!("{lead:<4}"), Look::Key);
                    push_marked(&mut row, part, look);
                    at += part.chars().count();
                    row.to = at;
                    rows.push(row);
                }
            }
            rows.push(Row { from: at, to: at, ..Row::default() });
        }
        if self.left_out > 0 {
            let text = format!("{} more: askd show {} lists them", self.left_out, self.handle);
            rows.push(Row::of(text, Look::Quiet));
        }
        rows
    }

    /// One option, and it allows: then there is nothing else that a yes could mean.
    pub(crate) fn is_one_yes(&self) -> bool {
        matches!(&self.choices[..], [choice] if words::allows(choice.kind))
    }

    fn total(&self) -> usize {
        self.rows(usize::MAX).iter().map(|row| row.to).max().unwrap_or(0)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.reached.0 >= self.total()
    }
}

impl Queue {
    /// The first of the two keys.
    pub(super) fn open_options(&mut self, now: Now) -> Vec<Action> {
        if let Err(why) = self.may(Decision::Deny, now) {
            return self.refuse(why, now);
        }
        let Some(item) = self.focused() else { return Vec::new() };
        // A plain yes and a plain no have keys of their own.
        let plain = words::plain_options(&item.ask.options);
        let mut choices: Vec<Choice> =
            item.ask.options.iter().filter(|choice| !plain.contains(&choice.id.as_str())).cloned().collect();
        if choices.is_empty() {
            return self.refuse("the agent offers nothing but yes and no", now);
        }
        let left_out = choices.len().saturating_sub(MOST);
        choices.truncate(MOST);
        let (id, handle) = (item.ask.id.clone(), words::one(&item.ask.handle));
        self.mode = Mode::Options(Options {
            id,
            handle,
            choices,
            left_out,
            pager: Pager::default(),
            reached: Reached::default(),
        });
        Vec::new()
    }

    /// The second key: one of the options, by its number from 1.
    pub(super) fn choose(&mut self, number: usize, now: Now) -> Vec<Action> {
        let Mode::Options(options) = &self.mode else { return Vec::new() };
        let Some(choice) = number.checked_sub(1).and_then(|at| options.choices.get(at)) else {
            return self.absorb(now);
        };
        let target = Target::Options(options.id.clone());
        let allows = words::allows(choice.kind);
        let decision = if allows { Decision::Allow } else { Decision::Deny };
        let Some(item) = self.items.get(&options.id).filter(|item| item.is_answerable()) else {
            return self.absorb_saying("that ask is over: nothing was answered", now);
        };
        let guarded = if allows {
            self.guard.may_allow(&target, now.tick)
        } else {
            self.guard.may_deny(&target, now.tick)
        };
        let why = if self.link != crate::action::Link::Up {
            Some(super::answer::AWAY)
        } else if !guarded {
            Some("too soon after it appeared: press it again")
        } else if allows && !item.is_read() {
            Some("read the action to its end first: esc, then space")
        } else if allows && !options.is_read() {
            Some("read what it grants to the end first: space")
        } else {
            None
        };
        if let Some(why) = why {
            return self.absorb_saying(why, now);
        }
        let (id, option) = (options.id.clone(), choice.id.clone());
        self.set_focus(Some(id));
        self.answer_focused(decision, Some(option), None, false)
    }
}
