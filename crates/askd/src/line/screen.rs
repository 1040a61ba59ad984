//! What has been drawn and told, so that nothing is answered that was not seen and nothing is told twice.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IsTerminal};

use askd_wire::{Ask, AskState, Delivery};

use crate::cmd::answer::Shown;
use crate::failure::Failure;
use crate::out::{self, Style, one_line, safe};
use crate::view::{self, Clock, Who, list, outcome};

/// More asks than this are not remembered once they are settled and told.
const MOST_KNOWN: usize = 20_000;

/// An ask that this screen has drawn.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) shown: Shown,
    /// Its place in the order of drawing, from 1.
    pub(super) number: u64,
    /// The outcome was told here.
    told: bool,
    delivery: Delivery,
    handed_back: bool,
    /// A foreground ask gets one when a remote surface has shown it, if a silence there means something.
    deadline: Option<String>,
}

/// The printed side of the surface.
pub(super) struct Screen {
    drawn: u64,
    known: HashMap<String, Drawn>,
    handles: BTreeMap<String, String>,
    pub(super) who: Who,
    style: Style,
    bell: bool,
}

impl Screen {
    /// `bell`: rings for a new ask, where a terminal can.
    pub(super) fn new(who: Who, bell: bool) -> Self {
        Self {
            drawn: 0,
            known: HashMap::new(),
            handles: BTreeMap::new(),
            who,
            style: Style::of_stdout(),
            bell: bell && io::stdout().is_terminal(),
        }
    }

    /// How many asks were drawn so far.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// The open asks that this screen has drawn and not told an end of.
    pub(super) fn open_ids(&self) -> Vec<String> {
        let open = self.known.iter().filter(|(_, drawn)| !drawn.told);
        let mut ids: Vec<String> = open.map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// By handle or full id.
    pub(super) fn find(&self, typed: &str) -> Option<&Drawn> {
        let id = self.handles.get(typed).map_or(typed, String::as_str);
        self.known.get(id)
    }

    /// The outcome was printed with a reply; its event says nothing new.
    pub(super) fn was_told(&mut self, id: &str) {
        if let Some(drawn) = self.known.get_mut(id) {
            drawn.told = true;
        }
    }

    /// An ask that the daemon does not know any more: its journal is another one, or was pruned.
    pub(super) fn lost(&mut self, id: &str) -> Result<(), Failure> {
        self.was_told(id);
        let handle = self.handles.iter().find(|(_, of)| *of == id).map(|(handle, _)| safe(handle));
        let handle = handle.unwrap_or_else(|| safe(id));
        out::print_line(&format!("{}: gone; how it ended is not kept", self.style.bold(&handle)))
    }

    /// Draws the whole ask. `ring`: it is new.
    pub(super) fn draw(&mut self, ask: &Ask, ring: bool) -> Result<(), Failure> {
        let clock = Clock::system();
        let mut text = view::card(ask, &self.who, &clock, self.style);
        if askd_words::is_answerable(ask) {
            let handle = safe(&ask.handle);
            text.push_str(&format!("  answer with: allow {handle}, or: deny {handle} why not\n"));
        }
        text.push('\n');
        if ring && self.bell {
            text.push('\u{7}');
        }
        out::print(&text)?;
        self.drawn += 1;
        self.remember(ask);
        Ok(())
    }

    fn remember(&mut self, ask: &Ask) {
        if self.known.len() >= MOST_KNOWN {
            self.known.retain(|_, drawn| !drawn.told);
            let known = &self.known;
            self.handles.retain(|_, id| known.contains_key(id));
        }
        self.handles.insert(ask.handle.clone(), ask.id.clone());
        let drawn = Drawn {
            shown: Shown::of(ask),
            number: self.drawn,
            told: ask.state == AskState::Settled,
            delivery: ask.delivery,
            handed_back: ask.requester.link == "handed_back",
            deadline: ask.deadline.clone(),
        };
        self.known.insert(ask.id.clone(), drawn);
    }

    /// Tells what is new about an ask that was drawn: its outcome, a correction, or that it was handed back.
    pub(super) fn update(&mut self, ask: &Ask) -> Result<(), Failure> {
        let Some(drawn) = self.known.get_mut(&ask.id) else { return Ok(()) };
        let mut lines = Vec::new();
        if ask.requester.link == "handed_back" && !drawn.handed_back && ask.state == AskState::Open {
            drawn.handed_back = true;
            lines.extend(outcome::elsewhere(ask, &Clock::system()));
        }
        if ask.deadline != drawn.deadline {
            drawn.deadline.clone_from(&ask.deadline);
            lines.extend(view::timed(ask, &Clock::system()));
        }
        if ask.state == AskState::Settled && !drawn.told {
            drawn.told = true;
            lines.extend(view::settled(ask));
        }
        if ask.delivery != drawn.delivery {
            drawn.delivery = ask.delivery;
            if outcome::is_correction(ask.delivery) {
                lines.extend(view::delivery(ask).map(str::to_owned));
            }
        }
        for line in lines {
            out::print_line(&format!("{}: {line}", self.style.bold(&safe(&ask.handle))))?;
        }
        Ok(())
    }

    /// An ask that was asked and settled while this screen could not see it.
    pub(super) fn missed(&mut self, ask: &Ask) -> Result<(), Failure> {
        let what = list::summary(ask, out::width());
        let how = view::settled(ask).unwrap_or_default();
        self.remember(ask);
        out::print_line(&format!("{}: {what}: {how}", self.style.bold(&safe(&ask.handle))))
    }

    pub(super) fn list(&self, asks: &[Ask]) -> Result<(), Failure> {
        out::print(&view::asks(asks, &self.who, &Clock::system(), out::width(), self.style))
    }

    /// What a person should know of the settings.
    pub(super) fn warn(&self, text: &str) -> Result<(), Failure> {
        for line in text.lines() {
            out::print_line(&self.style.warn(&format!("warning: {}", one_line(line))))?;
        }
        Ok(())
    }

    /// Something that is not about one ask.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        out::print_line(&self.style.dim(&one_line(text)))
    }
}
