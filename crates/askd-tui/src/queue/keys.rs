//! What keys do.

use askd_wire::Decision;

use super::{BACK_BEFORE, Line, Mode, Purpose, Queue, SNOOZE};
use crate::action::Action;
use crate::editor::{Draft, Edit, Editor};
use crate::key::Key;
use crate::now::Now;
use crate::pager::Pager;

/// Command lines that the daemon takes, unparsed.
const COMMANDS: [&str; 2] = ["/permissions", "/skip-permissions"];

impl Queue {
    /// Takes one input, in the order in which it was read.
    #[must_use]
    pub fn handle_key(&mut self, key: Key, now: Now) -> Vec<Action> {
        self.hint = None;
        self.hint_of_focus = false;
        let may_be_held = self.guard.is_held(&key, now.tick) && !self.is_typing();
        let was_options = matches!(self.mode, Mode::Options(_));
        let actions = match (&self.mode, &key) {
            (_, Key::Ctrl('l')) => vec![Action::Redraw],
            _ if may_be_held => self.absorb_saying("still held down? let go, then press it again", now),
            _ if self.guard.is_quiet(now.tick) => {
                self.absorb_saying("these keys were typed into the line that was here: they did nothing", now)
            }
            (Mode::Line(_), _) => self.line_key(&key, now),
            (_, Key::Ctrl('c')) => vec![Action::Quit],
            (Mode::List | Mode::Details, _) => self.list_key(&key, now),
            _ => self.panel_key(&key, now),
        };
        let answered = actions.iter().any(|action| matches!(action, Action::Answer(_) | Action::Bulk(_)));
        if answered || !was_options && matches!(self.mode, Mode::Options(_)) {
            self.guard.acted(key, now.tick);
        }
        self.settle(actions)
    }

    /// A key that does nothing: somebody means something else.
    pub(super) fn absorb(&mut self, now: Now) -> Vec<Action> {
        self.guard.absorbed(now.tick);
        Vec::new()
    }

    pub(super) fn absorb_saying(&mut self, why: &str, now: Now) -> Vec<Action> {
        self.hint = Some(why.to_owned());
        self.absorb(now)
    }

    /// The same for a key that was meant for the ask in focus.
    pub(super) fn refuse(&mut self, why: &str, now: Now) -> Vec<Action> {
        self.hint_of_focus = true;
        self.absorb_saying(why, now)
    }

    fn list_key(&mut self, key: &Key, now: Now) -> Vec<Action> {
        let moved = match key {
            Key::Char('y') => return self.decide(Decision::Allow, now),
            Key::Char('n') => return self.decide(Decision::Deny, now),
            Key::Char('m') => return self.open_message(now),
            Key::Char('A') => return self.open_options(now),
            Key::Char('a') => return self.open_bulk(Decision::Allow, now),
            Key::Char('d') => return self.open_bulk(Decision::Deny, now),
            Key::Char('s') => return self.snooze(now),
            Key::Char('S') => self.unsnooze(),
            Key::Char('g') => return self.jump(now),
            Key::Char('u') => return self.take_back(now),
            Key::Char('/') => return self.open_command(),
            Key::Char('q') => return vec![Action::Quit],
            Key::Char('?') => {
                self.mode = Mode::Help(Pager::default());
                true
            }
            Key::Enter => self.toggle_details(),
            Key::Esc => matches!(self.mode, Mode::Details) && self.toggle_details(),
            Key::Up => self.step(false),
            Key::Down => self.step(true),
            Key::Home => self.focus_at(0),
            Key::End => self.focus_at(self.listed.len().saturating_sub(1)),
            Key::Char(' ') | Key::PageDown | Key::Right => self.pager.next(),
            Key::PageUp | Key::Left => self.pager.previous(),
            _ => false,
        };
        if moved { Vec::new() } else { self.absorb(now) }
    }

    fn panel_key(&mut self, key: &Key, now: Now) -> Vec<Action> {
        if let Some(pager) = self.panel_pager() {
            let moved = match key {
                Key::Char(' ') | Key::PageDown | Key::Right | Key::Down => Some(pager.next()),
                Key::PageUp | Key::Left | Key::Up => Some(pager.previous()),
                _ => None,
            };
            match moved {
                Some(true) => return Vec::new(),
                Some(false) => return self.absorb(now),
                None => {}
            }
        }
        match (&self.mode, key) {
            (Mode::Bulk(_), Key::Char('y')) => self.confirm_bulk(now),
            (Mode::Bulk(_), Key::Char('n' | 'q') | Key::Esc) => self.close(),
            (Mode::Options(_), Key::Char(digit @ '1'..='9')) => {
                self.choose(digit.to_digit(10).map_or(0, |n| n as usize), now)
            }
            // With one option there is nothing else to say yes to.
            (Mode::Options(options), Key::Char('y' | 'A')) if options.is_one_yes() => self.choose(1, now),
            (Mode::Options(_), Key::Char('n' | 'q') | Key::Esc) => self.close(),
            (Mode::Help(_), Key::Char('q' | '?') | Key::Esc | Key::Enter) => self.close(),
            (Mode::Output { .. }, Key::Char('q') | Key::Esc | Key::Enter) => self.close(),
            (Mode::Output { .. }, Key::Char('/')) => self.open_command(),
            _ => self.absorb(now),
        }
    }

    fn panel_pager(&mut self) -> Option<&mut Pager> {
        match &mut self.mode {
            Mode::Help(pager) | Mode::Output { pager, .. } => Some(pager),
            Mode::Options(options) => Some(&mut options.pager),
            Mode::Bulk(bulk) => Some(&mut bulk.pager),
            Mode::List | Mode::Details | Mode::Line(_) => None,
        }
    }

    fn close(&mut self) -> Vec<Action> {
        self.mode = Mode::List;
        // What comes into sight again is new: a key that was meant for the panel must not answer it.
        self.guard.blind();
        Vec::new()
    }

    fn toggle_details(&mut self) -> bool {
        if self.focus.is_none() {
            return false;
        }
        self.mode = if matches!(self.mode, Mode::Details) { Mode::List } else { Mode::Details };
        self.pager = Pager::default();
        true
    }

    fn step(&mut self, down: bool) -> bool {
        let at = self.focus.as_ref().and_then(|focus| self.listed.iter().position(|id| id == focus));
        match at {
            Some(at) if down => self.focus_at(at + 1),
            Some(at) => at > 0 && self.focus_at(at - 1),
            None => self.focus_at(0),
        }
    }

    fn focus_at(&mut self, at: usize) -> bool {
        match self.listed.get(at) {
            Some(id) if self.focus.as_ref() != Some(id) => {
                self.set_focus(Some(id.clone()));
                true
            }
            _ => false,
        }
    }

    fn snooze(&mut self, now: Now) -> Vec<Action> {
        let tick = now.tick_ms();
        let Some(item) = self.focus.as_ref().and_then(|id| self.items.get_mut(id)) else {
            return self.absorb(now);
        };
        let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let longest = tick + ms(SNOOZE);
        let until_ms = item.ends_ms().map_or(longest, |end| longest.min(end - ms(BACK_BEFORE)));
        if until_ms <= tick {
            return self.refuse("it is lost in less than a minute: not hidden", now);
        }
        item.snoozed_until_ms = Some(until_ms);
        let id = item.ask.id.clone();
        self.mode = Mode::List;
        vec![Action::Snooze { id, until_ms }]
    }

    /// Brings every hidden ask back.
    fn unsnooze(&mut self) -> bool {
        let mut any = false;
        for item in self.items.values_mut() {
            any |= item.snoozed_until_ms.take().is_some();
        }
        any
    }

    fn jump(&mut self, now: Now) -> Vec<Action> {
        let Some(item) = self.focused() else { return self.absorb(now) };
        if let Some(host) = self.around.other_host(&item.ask) {
            return self.absorb_saying(&format!("the agent is on {host}"), now);
        }
        let place = item.ask.lineage.place.as_ref();
        match place.and_then(|place| place.tmux_pane.as_deref()).filter(|pane| is_pane(pane)) {
            Some(pane) => vec![Action::JumpToPane { pane: pane.to_owned() }],
            None => match place.and_then(|place| place.tty.as_deref()) {
                Some(tty) => self.absorb_saying(&format!("the agent is at {}", crate::words::one(tty)), now),
                None => self.absorb_saying("it is not known where the agent is", now),
            },
        }
    }

    fn take_back(&mut self, now: Now) -> Vec<Action> {
        match self.kept_late.take() {
            Some(id) => vec![Action::TakeBack { id }],
            None => self.absorb(now),
        }
    }

    fn open_command(&mut self) -> Vec<Action> {
        let session = self.focused().map(|item| {
            let lineage = &item.ask.lineage;
            (format!("{}/{}", lineage.agent, lineage.root), self.around.session(&item.ask))
        });
        let mut draft = std::mem::take(&mut self.kept_command);
        if draft.is_empty() {
            draft = Draft::new("/");
        }
        let purpose = Purpose::Command { only: session.is_some(), session };
        self.mode = Mode::Line(Line { purpose, editor: Editor::with(draft) });
        Vec::new()
    }

    fn line_key(&mut self, key: &Key, now: Now) -> Vec<Action> {
        // Whoever types does not answer what is above the line.
        self.guard.absorbed(now.tick);
        let Mode::Line(line) = &mut self.mode else { return Vec::new() };
        match key {
            // What was typed into a line that cannot be seen was not read by anybody.
            Key::Enter if self.screen.too_small => Vec::new(),
            Key::Enter => self.send_line(),
            Key::Esc | Key::Ctrl('c') => {
                self.close_line();
                Vec::new()
            }
            Key::Tab => {
                match &mut line.purpose {
                    Purpose::Message { stop, .. } => *stop = !*stop,
                    Purpose::Command { session: Some(_), only } => *only = !*only,
                    Purpose::Command { session: None, .. } => {}
                }
                Vec::new()
            }
            _ => {
                match line.editor.key(key) {
                    Edit::LeftOut(count) => {
                        self.hint =
                            Some(format!("{count} pasted characters that cannot be shown were left out"));
                    }
                    // The line's own slash is gone: so is the line.
                    Edit::Done if line.editor.text().is_empty() && *key == Key::Backspace => {
                        self.close_line()
                    }
                    Edit::Done | Edit::NotMine => {}
                }
                Vec::new()
            }
        }
    }

    /// Closes the line and keeps what is in it.
    fn close_line(&mut self) {
        if let Mode::Line(line) = std::mem::replace(&mut self.mode, Mode::List) {
            match line.purpose {
                Purpose::Message { .. } => self.kept_message = line.editor.into_draft(),
                Purpose::Command { .. } if line.editor.text() == "/" => {}
                Purpose::Command { .. } => self.kept_command = line.editor.into_draft(),
            }
        }
    }

    fn send_line(&mut self) -> Vec<Action> {
        let Mode::Line(line) = std::mem::replace(&mut self.mode, Mode::List) else { return Vec::new() };
        let Purpose::Command { session, only } = &line.purpose else { return self.send_message(line) };
        let text = line.editor.text().trim().to_owned();
        let first = text.split_whitespace().next().unwrap_or_default();
        match first {
            "" | "/" => Vec::new(),
            "/q" | "/quit" => vec![Action::Quit],
            "/?" | "/help" => {
                self.mode = Mode::Help(Pager::default());
                Vec::new()
            }
            // Typed without its slash it is meant all the same.
            _ if COMMANDS.iter().any(|command| first == *command || first == &command[1..]) => {
                let text = if text.starts_with('/') { text } else { format!("/{text}") };
                let session = session.as_ref().filter(|_| *only).map(|(name, _)| name.clone());
                vec![Action::Command { text, session }]
            }
            _ => {
                self.hint =
                    Some(format!("not understood: {}; /permissions, /skip-permissions, /help", first));
                self.kept_command = line.editor.into_draft();
                Vec::new()
            }
        }
    }
}

/// `%` and digits, as tmux names panes; anything else is not given to tmux.
fn is_pane(pane: &str) -> bool {
    pane.strip_prefix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
