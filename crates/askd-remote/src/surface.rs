//! What a remote surface is: the one trait that the next service implements, in one file.
//!
//! A surface is told of asks and of what happens to them, and says in [`Out`] what it wants: of the daemon
//! ([`Wish`]) and of its own side (its [`Surface::Deed`], done by its [`Hands`], whose results come back as
//! [`Surface::Heard`]). It has no threads, no clock and no connection of its own, so it can be run step by step.

use askd_wire::{Answer, Ask, Problem};
use serde_json::Value;

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never steps.
    pub ms: u64,
    /// Unix time in milliseconds.
    pub wall_ms: i64,
}

/// What a surface declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// For people, and the name under which its state is kept: `Telegram`.
    pub name: &'static str,
    /// How many asks it can hold at once; `None`: any number.
    pub capacity: Option<u32>,
    /// It only tells of asks: it never counts as a place where a person could answer.
    pub onlooker: bool,
}

/// By which the reply to a wish is known.
pub type Ticket = u64;

/// What a surface wants of the daemon. Each is done before the next one.
#[derive(Debug, Clone)]
pub enum Wish {
    /// A person can see it now.
    Shown { ask: String },
    /// It cannot be shown here, for this reason; the ask stays open everywhere else.
    Failed { ask: String, reason: String },
    /// A person answered. Only this settles anything.
    Answer { ticket: Ticket, ask: String, answer: Answer, by: Option<String> },
    /// The ask of this id or handle as it now is, open or over.
    Look { ticket: Ticket, ask: String },
    /// All open asks, shown here or not.
    List { ticket: Ticket },
    /// A `/permissions …` or `/skip-permissions …` line.
    Command { ticket: Ticket, text: String },
    /// Everything that waited at its server was fetched and its answers were given.
    Polled,
    /// Keep this in the journal; the reply comes when it is there.
    Keep { state: Value },
    /// Why it does not work, for people; `None`: it works.
    Trouble(Option<String>),
    /// A line for the daemon's own log.
    Log(String),
}

/// What came of a wish.
#[derive(Debug, Clone)]
pub enum Reply {
    Answered {
        ticket: Ticket,
        result: Result<Box<Ask>, Box<Problem>>,
    },
    Looked {
        ticket: Ticket,
        ask: Option<Box<Ask>>,
    },
    Listed {
        ticket: Ticket,
        asks: Vec<Ask>,
    },
    Text {
        ticket: Ticket,
        text: Result<String, String>,
    },
    Kept {
        done: bool,
    },
    /// The daemon was not able to say; it is to be asked again, or a person is told. Why: for people.
    Failed {
        ticket: Ticket,
        why: String,
    },
    /// The daemon could not be asked. The wish is to be made again after the next [`Surface::begin`].
    Lost {
        ticket: Ticket,
    },
}

/// Something that every surface is told, besides asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Safe text for people.
    Notice(String),
    /// The machine was suspended: fetch what waits and say [`Wish::Polled`].
    Woke,
}

/// One step that a surface wants.
#[derive(Debug)]
pub enum Step<D> {
    Wish(Wish),
    Deed(D),
}

/// The steps that a surface wants, in order.
#[derive(Debug)]
pub struct Out<D> {
    pub steps: Vec<Step<D>>,
}

impl<D> Default for Out<D> {
    fn default() -> Self {
        Self { steps: Vec::new() }
    }
}

impl<D> Out<D> {
    pub fn wish(&mut self, wish: Wish) {
        self.steps.push(Step::Wish(wish));
    }

    pub fn deed(&mut self, deed: D) {
        self.steps.push(Step::Deed(deed));
    }
}

/// A place elsewhere where a person can see and answer asks.
pub trait Surface: Send + 'static {
    /// What its hands hear.
    type Heard: Send + 'static;
    /// What its hands do.
    type Deed: Send + 'static;

    fn about(&self) -> About;

    /// It is attached, or attached again: what it kept, and all asks that it holds now. Replies to earlier wishes do not
    /// come any more.
    fn begin(&mut self, kept: Option<Value>, asks: Vec<Ask>, now: Now, out: &mut Out<Self::Deed>);

    /// An ask got its slot.
    fn show(&mut self, ask: Ask, now: Now, out: &mut Out<Self::Deed>);

    /// Something happened to an ask that it holds or held: `what` is the journal's word for it.
    fn update(&mut self, ask: Ask, what: &str, now: Now, out: &mut Out<Self::Deed>);

    fn replied(&mut self, reply: Reply, now: Now, out: &mut Out<Self::Deed>);

    fn heard(&mut self, heard: Self::Heard, now: Now, out: &mut Out<Self::Deed>);

    fn told(&mut self, told: Told, now: Now, out: &mut Out<Self::Deed>);

    /// When [`Surface::tick`] is wanted, on [`Now::ms`].
    fn due(&self) -> Option<u64>;

    fn tick(&mut self, now: Now, out: &mut Out<Self::Deed>);
}

/// Does what a surface wants done on its own side. It never holds the caller up; results go to `back`.
pub trait Hands<S: Surface>: Send + 'static {
    fn act(&mut self, deed: S::Deed, back: &Back<S::Heard>);
}

/// The way of results back to the surface; cheap to clone, for the threads of hands.
#[derive(Debug)]
pub struct Back<H>(pub(crate) std::sync::mpsc::Sender<crate::driver::Message<H>>);

impl<H> Clone for Back<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H> Back<H> {
    /// Gives a result back; a surface that is gone needs none.
    pub fn give(&self, heard: H) {
        let _ = self.0.send(crate::driver::Message::Heard(heard));
    }
}
