//! What happened, step by step, kept only when a failing seed is told again.

use std::fmt;

use askd_core::AskId;

/// A step, with the asks that it touched; none: it concerned everybody.
#[derive(Debug, Clone)]
struct Line {
    at: u64,
    ask: Option<AskId>,
    text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) kept: bool,
    lines: Vec<Line>,
}

impl Story {
    pub(crate) fn kept() -> Self {
        Self { kept: true, lines: Vec::new() }
    }

    pub(crate) fn add(&mut self, at: u64, ask: Option<AskId>, text: String) {
        self.lines.push(Line { at, ask, text });
    }

    /// Every step that touched one of these asks or everybody; without asks, every step.
    pub(crate) fn of(&self, asks: &[AskId]) -> String {
        use fmt::Write;
        let mut out = String::new();
        for line in &self.lines {
            if asks.is_empty() || line.ask.is_none_or(|id| asks.contains(&id)) {
                let (s, ms) = (line.at / 1000, line.at % 1000);
                let _ = write!(out, "{s:>8}.{ms:03}  {}", line.text);
                match line.ask {
                    Some(id) if asks.len() != 1 => {
                        let _ = writeln!(out, "  [{id}]");
                    }
                    _ => out.push('\n'),
                }
            }
        }
        out
    }
}

/// Adds a line to the story of a world when it is kept.
macro_rules! tell {
    ($world:expr, $ask:expr, $($arg:tt)*) => {
        if $world.story.kept {
            let text = format!($($arg)*);
            $world.story.add($world.clock.now, $ask, text);
        }
    };
}
pub(crate) use tell;
