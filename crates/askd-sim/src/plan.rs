//! What a seed's world is made of, and what goes wrong in it. Each kind of fault is in some worlds and not in others, so
//! that no fault hides another one's effects.

use askd_core::settings::{HoldBackground, Unreachable};
use askd_core::{Decision, Settings};

use crate::dice::Dice;

/// How an agent works with askd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentKind {
    /// Hooks beside a prompt of its own.
    Terminal,
    /// Hooks, nobody in front of it.
    Headless,
    /// Asks through the library, reconnects, reports what it sees.
    Host,
    /// One background ask of a script.
    Script,
}

/// A person and the place where they sit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurfacePlan {
    pub(crate) remote: bool,
    /// Shows one conversation only.
    pub(crate) narrow: bool,
    /// Claims what is not so.
    pub(crate) lies: bool,
    pub(crate) daemon: usize,
    /// The person sits before the shipped queue.
    pub(crate) queue: bool,
}

impl SurfacePlan {
    /// How many asks it holds at once: a chat on a phone holds a few.
    pub(crate) fn capacity(self) -> Option<u32> {
        (self.remote && !self.narrow).then_some(2)
    }
}

/// Chances are per mille and per batch or message, unless they say otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) daemons: usize,
    pub(crate) agents: Vec<AgentKind>,
    pub(crate) surfaces: Vec<SurfacePlan>,
    /// How long things go wrong, in milliseconds.
    pub(crate) chaos_ms: u64,
    pub(crate) crash: u32,
    pub(crate) torn_release: u32,
    pub(crate) full: u32,
    pub(crate) unknown: u32,
    pub(crate) blind: u32,
    pub(crate) lost: u32,
    pub(crate) twice: u32,
    pub(crate) slow: u32,
    /// Per cent, of the weather that comes every minute or so.
    pub(crate) steps: u32,
    pub(crate) suspends: u32,
    pub(crate) reboots: u32,
    pub(crate) stops: u32,
    pub(crate) broken_links: u32,
    pub(crate) killed_agents: u32,
    /// Per cent, of calls.
    pub(crate) killed_requesters: u32,
    pub(crate) strangers: u32,
    /// Per cent, of the weather: a person changes settings for a while.
    pub(crate) overrides: u32,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let daemons = if dice.percent(20) { 2 } else { 1 };
        let agents = (0..dice.between(1, 5))
            .map(|_| match dice.below(10) {
                0..=3 => AgentKind::Terminal,
                4 => AgentKind::Headless,
                5..=7 => AgentKind::Host,
                _ => AgentKind::Script,
            })
            .collect();
        let surfaces: Vec<_> = (0..dice.between(1, 4))
            .map(|_| SurfacePlan {
                remote: dice.percent(30),
                narrow: dice.percent(20),
                lies: dice.percent(15),
                daemon: dice.index(daemons),
                queue: false,
            })
            .collect();
        let settings = settings(dice, surfaces.iter().filter(|s| s.remote).count());
        let mut some = |most: u64| {
            let some = dice.percent(55);
            let chance = u32::try_from(dice.between(1, most)).unwrap_or(1);
            if some { chance } else { 0 }
        };
        let mut plan = Self {
            settings,
            daemons,
            agents,
            surfaces,
            crash: some(40),
            torn_release: some(30),
            full: some(60),
            unknown: some(80),
            blind: some(30),
            lost: some(80),
            twice: some(150),
            slow: some(150),
            steps: some(40),
            suspends: some(30),
            reboots: some(8),
            stops: some(15),
            broken_links: some(60),
            killed_agents: some(25),
            killed_requesters: some(25),
            strangers: some(20),
            chaos_ms: dice.between(300_000, 3_600_000),
            overrides: 0,
        };
        if dice.percent(50) {
            plan.overrides = u32::try_from(dice.between(1, 40)).unwrap_or(1);
        }
        // Some of those who sit at the machine have the queue before them.
        if dice.percent(30)
            && let Some(surface) = plan.surfaces.iter_mut().find(|s| !s.remote && !s.narrow && !s.lies)
        {
            surface.queue = true;
        }
        plan
    }
}

fn settings(dice: &mut Dice, remotes: usize) -> Settings {
    let decision = |dice: &mut Dice| if dice.percent(50) { Decision::Allow } else { Decision::Deny };
    let timeout = |dice: &mut Dice| if dice.percent(40) { 360_000 } else { dice.span(3_000, 600_000) };
    let mut settings = Settings {
        background_timeout_ms: timeout(dice),
        background_default: decision(dice),
        safety_timeout_ms: timeout(dice),
        safety_default: decision(dice),
        late_answer_ms: if dice.percent(70) { 60_000 } else { dice.span(1_000, 600_000) },
        background_timeout_is_set: dice.percent(40),
        safety_timeout_is_set: dice.percent(40),
        unreachable: if dice.percent(20) {
            Unreachable::WhenNoneAttached
        } else {
            Unreachable::WhenNoSurface
        },
        no_surfaces: dice.percent(3),
        remotes: if dice.percent(50) { u32::try_from(remotes).unwrap_or(0) } else { 0 },
        hold_background: match dice.below(4) {
            0 => HoldBackground::Always,
            1 => HoldBackground::Never,
            _ => HoldBackground::Auto,
        },
        max_open_per_session: if dice.percent(10) { 2 } else { 10_000 },
        max_held_bytes: if dice.percent(10) { 8_000 } else { 128 * 1024 * 1024 },
        max_brought_bytes: if dice.percent(10) { 24_000 } else { 16 * 1024 * 1024 },
        background_deny_stops: dice.percent(20),
        queue_cap: if dice.percent(40) { u32::try_from(dice.below(3)).unwrap_or(0) } else { 5 },
        remote_timeout_ms: if dice.percent(15) { dice.span(1_000, 300_000) } else { 0 },
        remote_action: decision(dice),
        skip: dice.percent(3),
        ..Settings::default()
    };
    // Who may bring little may also be remembered little of.
    if settings.max_brought_bytes < 16 * 1024 * 1024 {
        settings.max_remembered_bytes = 3_000;
    }
    settings
}
