//! The ask in focus: who asks, what would run, what can be said to it.

use std::ops::Range;

use askd_wire::{Class, Decision};

use super::canvas::Canvas;
use crate::content;
use crate::guard::Target;
use crate::item::Item;
use crate::now::Now;
use crate::pager::Pager;
use crate::queue::{Mode, Queue, Screen};
use crate::rows::{Look, Row, flow, push_marked, width, wrap, wrap_words};
use crate::words;

const MARKED: &str = "unseen or misleading characters are marked";

/// Columns of the title that the countdown leaves.
const BESIDE: usize = 14;

/// From this height on there is air around the action.
const AIRY: u16 = 24;

/// Rows of the action that are worth more than a long list, and those that are worth more than any.
const ACTION: usize = 4;
const LEAST: usize = 3;

impl Queue {
    /// What the card wants to have, and what it must have: who asks, the keys, and some of the action.
    pub(super) fn card_heights(&mut self, canvas: &Canvas<'_>, now: Now) -> (usize, usize) {
        let inner = canvas.columns().saturating_sub(2);
        let content =
            self.focus.as_ref().and_then(|id| self.items.get_mut(id)).map(|item| item.rows(inner).len());
        let (Some(content), Some(item)) = (content, self.focused()) else { return (0, 0) };
        let head = self.facts(item, inner, part_of(canvas), now).len();
        let fixed = 1 + head + self.option_rows(item, inner, keys_of(canvas), now).len();
        (fixed + ACTION, fixed + content.min(LEAST))
    }

    pub(super) fn card(
        &mut self,
        canvas: &mut Canvas<'_>,
        body: Range<usize>,
        screen: &mut Screen,
        now: Now,
    ) {
        let columns = canvas.columns();
        let inner = columns.saturating_sub(2);
        let details = matches!(self.mode, Mode::Details);
        let Some(id) = self.focus.clone() else { return };
        let Some(item) = self.items.get_mut(&id) else { return };
        let content = item.rows(inner);
        let Some(item) = self.items.get(&id) else { return };
        let mut options = self.option_rows(item, inner, keys_of(canvas), now);
        let head = if details { Vec::new() } else { self.facts(item, inner, part_of(canvas), now) };
        let mut tail: Vec<Row> = Vec::new();
        if details {
            tail = self.everything(item, inner, now);
        }
        if body.is_empty() {
            return;
        }
        // The action gets what is left: on a small screen a line or two, and more of them in details. Keys are the first to
        // go while a line is typed, where they are letters.
        let room = body.len().saturating_sub(1 + head.len());
        if self.is_typing() && room < options.len() + LEAST {
            options.clear();
        }
        options.truncate(room.saturating_sub(1));
        let roomy = canvas.area.height >= AIRY && room >= options.len() + LEAST + 2;
        let air = usize::from(roomy);
        let height = room.saturating_sub(options.len() + 2 * air);
        self.title_row(canvas, body.start, item, now);
        screen.countdowns.extend(item.countdowns(now));
        let mut y = body.start + 1;
        for row in &head {
            canvas.put_at(1, y, row, inner);
            y += 1;
        }
        y += air;
        let mut whole = Vec::with_capacity(content.len() + tail.len());
        whole.extend(content.iter());
        whole.extend(tail.iter());
        let has_pages = whole.len() > height;
        let page_height = if has_pages { height.saturating_sub(1) } else { height };
        let mut pager = self.pager;
        let range = pager.fit(whole.len(), page_height.max(1));
        for row in whole[range].iter().take(height) {
            if canvas.put_at(1, y, row, inner) && row.to > row.from {
                screen.parts.push((id.clone(), row.from, row.to));
            }
            y += 1;
        }
        if has_pages && page_height > 0 {
            canvas.put_at(1, y, &page_row(pager, item), inner);
        }
        // Close to what they answer, and at the bottom when that fills the screen.
        let lowest = body.end - options.len();
        let keys_at = if has_pages { lowest } else { (y + air).min(lowest) };
        for (line, row) in options.iter().enumerate() {
            canvas.put_at(1, keys_at + line, row, inner);
        }
        screen.ids.push(id.clone());
        screen.target = Some(Target::Ask(id));
        self.pager = pager;
    }

    /// `── k7f  Bash ───────────── auto-deny in 5m12s ──`
    fn title_row(&self, canvas: &mut Canvas<'_>, y: usize, item: &Item, now: Now) {
        let columns = canvas.columns();
        canvas.rule(y);
        let mut right = Row::new();
        if let Some(left) = item.left(now) {
            let look = if left.as_secs() < 60 { Look::Warn } else { Look::Strong };
            let default = item.ask.default;
            let (text, short) = match self.not_recorded {
                Some(_) if left.is_zero() => (words::unrecorded(default), "not recorded".to_owned()),
                _ => (words::timed(default, left), words::timed_short(default, left)),
            };
            right = Row::of(format!(" {text} "), look);
            // The handle and the tool are to be seen beside it.
            if right.width() + BESIDE > columns {
                right = Row::of(format!(" {short} "), look);
            }
        }
        let right_at = columns.saturating_sub(right.width() + 1);
        let mut left = Row::of(format!(" {} ", words::one(&item.ask.handle)), Look::Strong);
        let (tool, look) = match item.ask.class {
            Class::Tool => (words::one(&item.ask.action.tool), Look::Strong),
            Class::Safety => (format!("safety: {}", words::one(&item.ask.action.tool)), Look::Danger),
        };
        let room = right_at.saturating_sub(left.width() + 4);
        push_marked(&mut left, &format!(" {} ", askd_text::cut(&tool, room)), look);
        canvas.put_at(1, y, &left, columns.saturating_sub(2));
        canvas.put_at(right_at, y, &right, right.width());
    }

    /// Who asks, since when, what else is true of it, in at most so many rows. What is too long for that is cut, and where
    /// even that is not enough, warnings come first: details have it in full.
    fn facts(&self, item: &Item, columns: usize, most: usize, now: Now) -> Vec<Row> {
        // What others wrote, and what askd itself says.
        let mut named = self.around.who(&item.ask);
        let mut parts = vec![(format!("since {}", self.around.local(&item.ask.asked_at, now)), Look::Quiet)];
        if let Some((left, before)) = item.gives_up_soon(now) {
            parts.push((words::gives_up(left, before), Look::Warn));
        }
        parts.extend(words::elsewhere(&item.ask, None).map(|text| (text, Look::Quiet)));
        if item.ask.display.iter().any(|field| field.marked) {
            parts.push((MARKED.to_owned(), Look::Warn));
        }
        parts.extend(content::not_shown(&item.ask).map(|why| (why.to_owned(), Look::Danger)));
        let cut = |parts: &mut Vec<(String, Look)>, widest| {
            parts.iter_mut().for_each(|(text, _)| *text = askd_text::cut(text, widest));
        };
        cut(&mut parts, columns * most);
        for widest in [columns * most, columns, columns * 2 / 3, columns / 2, columns / 3, columns / 4] {
            cut(&mut named, widest);
            let rows = flow(&[named.as_slice(), parts.as_slice()].concat(), columns);
            if rows.len() <= most {
                return rows;
            }
        }
        parts.sort_by_key(|(_, look)| match look {
            Look::Danger => 0,
            Look::Warn => 1,
            _ => 2,
        });
        cut(&mut parts, columns.saturating_sub(2));
        let mut rows = flow(&[parts.as_slice(), named.as_slice()].concat(), columns.saturating_sub(2));
        rows.truncate(most);
        if let Some(last) = rows.last_mut() {
            last.push(" …", Look::Quiet);
        }
        rows
    }

    /// The keys that answer it, with the agent's own words; a key that does not count yet is quiet. In more than so many
    /// rows they are without those words, which details have in full.
    fn option_rows(&self, item: &Item, columns: usize, most: usize, now: Now) -> Vec<Row> {
        let rows = self.key_rows(item, columns, true, now);
        if rows.len() <= most { rows } else { self.key_rows(item, columns, false, now) }
    }

    fn key_rows(&self, item: &Item, columns: usize, words: bool, now: Now) -> Vec<Row> {
        if item.is_handed_back() {
            let text = "only the agent's own prompt can answer it · g goes there";
            return flow(&[(text.to_owned(), Look::Quiet)], columns);
        }
        let plain = words::plain_options(&item.ask.options);
        let label = |allows| {
            let options = item.ask.options.iter();
            let choice = options
                .filter(|it| plain.contains(&it.id.as_str()))
                .find(|it| words::allows(it.kind) == allows);
            choice.map(|choice| words::one(&choice.label)).filter(|label| words && !says_nothing_new(label))
        };
        let others = item.ask.options.iter().filter(|it| !plain.contains(&it.id.as_str())).count();
        let can_allow = self.may(Decision::Allow, now).is_ok();
        let can_deny = self.may(Decision::Deny, now).is_ok();
        let mut keys = vec![
            key("y", "allow once", label(true), can_allow, columns),
            key("n", "deny", label(false), can_deny, columns),
            key("m", "deny with a message", None, can_deny, columns),
        ];
        if others > 0 {
            let text =
                if others == 1 { "always …".to_owned() } else { format!("{others} other options …") };
            keys.push(key("A", &text, None, can_deny, columns));
        }
        pack(keys, columns)
    }

    /// Everything else there is to know, below the action.
    fn everything(&self, item: &Item, columns: usize, now: Now) -> Vec<Row> {
        let ask = &item.ask;
        let lineage = &ask.lineage;
        let mut fields: Vec<(&str, String, Look)> = vec![("asked by", self.around.session(ask), Look::Plain)];
        fields.extend(lineage.subagent.as_ref().map(|it| ("subagent", words::subagent(it), Look::Plain)));
        fields.extend(lineage.job.as_deref().map(|job| ("job", words::one(job), Look::Plain)));
        if item.is_background() {
            fields.push(("attendance", "background: nobody is at this turn".to_owned(), Look::Plain));
        }
        let mut session = words::one(&lineage.session);
        if lineage.root != lineage.session {
            session = format!("{session}, below {}", words::one(&lineage.root));
        }
        fields.push(("session", session, Look::Plain));
        fields.extend(self.around.other_host(ask).map(|host| ("host", host, Look::Warn)));
        if let Some(place) = &lineage.place {
            let pane = place.tmux_pane.as_deref().map(|pane| format!("tmux pane {}", words::one(pane)));
            let parts: Vec<String> = place.tty.as_deref().map(words::one).into_iter().chain(pane).collect();
            if !parts.is_empty() {
                fields.push(("terminal", parts.join(", "), Look::Plain));
            }
        }
        fields.push(("since", self.around.local(&ask.asked_at, now), Look::Plain));
        if let Some(deadline) = ask.deadline.as_deref().filter(|_| item.left(now).is_some()) {
            let what = match ask.default {
                Some(Decision::Deny) => "auto-deny",
                Some(Decision::Allow) => "auto-allow",
                None => "back to the agent's own prompt",
            };
            fields.push(("timed", format!("{what} at {}", self.around.local(deadline, now)), Look::Plain));
        }
        if let (Some(at), Some((_, before))) = (ask.gives_up_at.as_deref(), item.gives_up(now)) {
            let late = if before { " (before the timed answer)" } else { "" };
            let text = format!("its requester stops waiting at {}{late}", self.around.local(at, now));
            fields.push(("limit", text, Look::Warn));
        }
        fields.extend(words::elsewhere(ask, None).map(|text| ("note", text, Look::Plain)));
        if ask.display.iter().any(|field| field.marked) {
            fields.push(("marks", MARKED.to_owned(), Look::Warn));
        }
        fields.extend(content::not_shown(ask).map(|why| ("not shown", why.to_owned(), Look::Danger)));
        for (at, choice) in ask.options.iter().enumerate() {
            let grants = words::grants(choice).map(|grants| format!(" ({grants})")).unwrap_or_default();
            let text = format!("{}: {}{grants}", words::option_kind(choice.kind), words::one(&choice.label));
            fields.push((if at == 0 { "options" } else { "" }, text, Look::Plain));
        }
        fields.push(("digest", words::one(&ask.digest), Look::Quiet));
        let mut rows = vec![Row::new()];
        for (label, text, look) in fields {
            for (at, part) in wrap_words(&text, columns.saturating_sub(13)).into_iter().enumerate() {
                let mut row = Row::of(format!("{:<13}", if at == 0 { label } else { "" }), Look::Quiet);
                push_marked(&mut row, part, look);
                rows.push(row);
            }
        }
        rows
    }
}

/// Most rows of who asks, beside the action that it is about.
fn part_of(canvas: &Canvas<'_>) -> usize {
    let height = usize::from(canvas.area.height);
    if height < 12 { 1 } else { (height - 3) / 3 }
}

/// Most rows of the keys with the agent's own words.
fn keys_of(canvas: &Canvas<'_>) -> usize {
    usize::from(canvas.area.height) / 5
}

/// A label that only repeats what the key says.
fn says_nothing_new(label: &str) -> bool {
    ["allow", "allow once", "yes", "deny", "no", "reject", "reject once"]
        .iter()
        .any(|known| label.eq_ignore_ascii_case(known))
}

fn key(name: &str, text: &str, label: Option<String>, counts: bool, columns: usize) -> Row {
    let mut row = Row::of(name, if counts { Look::Key } else { Look::Quiet });
    row.push(format!(" {text}"), if counts { Look::Plain } else { Look::Quiet });
    if let Some(label) = label {
        row.push(": ", Look::Quiet);
        let room = columns.saturating_sub(row.width());
        push_marked(&mut row, &askd_text::cut(&label, room), Look::Quiet);
    }
    row
}

/// Keys side by side, as many on a row as fit.
fn pack(keys: Vec<Row>, columns: usize) -> Vec<Row> {
    const BETWEEN: &str = "   ";
    let mut rows: Vec<Row> = Vec::new();
    for mut key in keys {
        match rows.last_mut() {
            Some(row) if row.width() + width(BETWEEN) + key.width() <= columns => {
                row.push(BETWEEN, Look::Plain);
                row.pieces.append(&mut key.pieces);
            }
            _ => rows.extend(split(key, columns)),
        }
    }
    rows
}

/// A long label goes on below.
fn split(key: Row, columns: usize) -> Vec<Row> {
    if key.width() <= columns {
        return vec![key];
    }
    let text = key.text();
    wrap(&text, columns).into_iter().map(|part| Row::of(part, Look::Plain)).collect()
}

fn page_row(pager: Pager, item: &Item) -> Row {
    let mut row = Row::of(pager.place(), Look::Warn);
    if !pager.is_at_end() {
        row.push(" · ", Look::Quiet);
        row.push("space", Look::Key);
        row.push(if item.is_read() { " for more" } else { " for more, allow after the last" }, Look::Quiet);
    }
    row
}
