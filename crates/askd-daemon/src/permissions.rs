//! `/permissions` and `/skip-permissions`, typed at any surface: one reading and one text for all of them.

use askd_core::outcome::duration;
use askd_core::{Decision, Overrides, SessionKey, Settings, State};
use askd_wire::{Ask, Skipping};

/// Where tool asks are allowed without anybody. Asked for at each look at the daemon's health.
pub(crate) fn skipping(state: &State) -> Skipping {
    let everywhere = state.settings_for_all().skip;
    // Only where a person set something it can be otherwise.
    let other = state.sessions().filter(|session| {
        let key = &session.info.key;
        !session.ended
            && session.set_here().skip.is_some()
            && state.root_of(key) == *key
            && state.settings_for(key).skip != everywhere
    });
    let other: Vec<String> = other.map(|session| session.info.key.to_string()).collect();
    match everywhere {
        true => Skipping { everywhere, on: Vec::new(), off: other },
        false => Skipping { everywhere, on: other, off: Vec::new() },
    }
}

/// What a typed line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Show,
    Set(Overrides),
}

const USAGE: &str = "usage: /permissions | /permissions default allow|deny [safety] | \
                     /permissions timeout SECONDS [safety] | /skip-permissions [on|off]";
/// Longest timeout in seconds: nobody waits for more than a year.
const LONGEST: u64 = 31_536_000;

/// Reads a line. `/skip-permissions` alone switches to the other state.
pub(crate) fn parse(text: &str, skip_is_on: bool) -> Result<Line, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let set = |overrides| Ok(Line::Set(overrides));
    match words.as_slice() {
        ["/permissions"] => Ok(Line::Show),
        ["/permissions", "default", value, rest @ ..] => {
            let value = match *value {
                "allow" => Decision::Allow,
                "deny" => Decision::Deny,
                other => return Err(format!("default {other:?} is neither allow nor deny; {USAGE}")),
            };
            set(match safety(rest)? {
                true => Overrides { safety_default: Some(value), ..Overrides::default() },
                false => Overrides { background_default: Some(value), ..Overrides::default() },
            })
        }
        ["/permissions", "timeout", value, rest @ ..] => {
            let seconds = value.parse::<u64>().ok().filter(|s| (1..=LONGEST).contains(s));
            let Some(seconds) = seconds else {
                return Err(format!(
                    "timeout {value:?} is not a number of seconds from 1 to {LONGEST}; {USAGE}"
                ));
            };
            let ms = Some(seconds * 1000);
            set(match safety(rest)? {
                true => Overrides { safety_timeout_ms: ms, ..Overrides::default() },
                false => Overrides { background_timeout_ms: ms, ..Overrides::default() },
            })
        }
        ["/skip-permissions"] => set(Overrides { skip: Some(!skip_is_on), ..Overrides::default() }),
        ["/skip-permissions", "on"] => set(Overrides { skip: Some(true), ..Overrides::default() }),
        ["/skip-permissions", "off"] => set(Overrides { skip: Some(false), ..Overrides::default() }),
        _ => Err(USAGE.to_owned()),
    }
}

fn safety(rest: &[&str]) -> Result<bool, String> {
    match rest {
        [] => Ok(false),
        ["safety"] => Ok(true),
        _ => Err(USAGE.to_owned()),
    }
}

/// Settings as one level has them, with what was changed over the config.
pub(crate) struct InForce<'a> {
    pub(crate) settings: Settings,
    /// Set for every session, then for this one.
    pub(crate) overrides: [&'a Overrides; 2],
    pub(crate) session: Option<&'a SessionKey>,
    pub(crate) warnings: Vec<String>,
}

impl InForce<'_> {
    fn mark(&self, is_set: impl Fn(&Overrides) -> bool) -> &'static str {
        match (is_set(self.overrides[1]), is_set(self.overrides[0])) {
            (true, _) => "  (session override)",
            (false, true) => "  (override)",
            (false, false) => "",
        }
    }

    /// The policy lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let s = &self.settings;
        let mut lines = vec![
            "permission asks — every ask races direct input, remote surfaces and (background asks) the timed answer:"
                .to_owned(),
            format!(
                "background asks (jobs, workflow steps, background subagents): {}{}",
                auto(s.background_default, s.background_timeout_ms),
                self.mark(|o| o.background_default.is_some() || o.background_timeout_ms.is_some())
            ),
            format!(
                "safety asks (doom-loop confirmations): {}{}",
                auto(s.safety_default, s.safety_timeout_ms),
                self.mark(|o| o.safety_default.is_some() || o.safety_timeout_ms.is_some())
            ),
        ];
        if s.skip || self.overrides.iter().any(|o| o.skip.is_some()) {
            let state = if s.skip { "on: every tool ask is allowed, no safety ask" } else { "off" };
            lines.push(format!("skip-permissions: {state}{}", self.mark(|o| o.skip.is_some())));
        }
        lines.push(match s.remote_timeout_ms {
            0 => "foreground asks wait for a person".to_owned(),
            ms => format!(
                "foreground asks shown on a remote surface: {} without an answer there",
                auto(s.remote_action, ms)
            ),
        });
        if s.queue_cap > 0 {
            lines.push(format!("at most {} background asks wait behind the one in front", s.queue_cap));
        }
        // The config's own warnings say it already where it is set there.
        if s.safety_default == Decision::Allow
            && self.overrides.iter().any(|o| o.safety_default == Some(Decision::Allow))
        {
            lines.push("warning: unattended loops go on without anyone confirming".to_owned());
        }
        lines.extend(self.warnings.iter().map(|w| format!("warning: {w}")));
        lines
    }

    /// Policy lines, then the open asks with their countdowns.
    pub(crate) fn text(&self, open: &[Listed]) -> String {
        let mut lines = self.lines();
        if open.is_empty() {
            lines.push("no permission asks open".to_owned());
        }
        lines.extend(open.iter().map(Listed::line));
        lines.join("\n")
    }

    /// What a change came to.
    pub(crate) fn confirmation(&self, set: &Overrides) -> String {
        let s = &self.settings;
        let scope = match self.session {
            Some(session) => format!("session override for {}", askd_text::safe(&session.session).text),
            None => for_all(set).to_owned(),
        };
        let mut lines = Vec::new();
        if set.background_default.is_some() || set.background_timeout_ms.is_some() {
            lines.push(format!(
                "background asks: {}  ({scope})",
                auto(s.background_default, s.background_timeout_ms)
            ));
        }
        if set.safety_default.is_some() || set.safety_timeout_ms.is_some() {
            lines.push(format!("safety asks: {}  ({scope})", auto(s.safety_default, s.safety_timeout_ms)));
            if s.safety_default == Decision::Allow {
                lines.push("warning: unattended loops go on without anyone confirming".to_owned());
            }
        }
        if let Some(skip) = set.skip {
            let what = if skip { "on: every tool ask is allowed, no safety ask" } else { "off" };
            lines.push(format!("skip-permissions {what}  ({scope})"));
        }
        lines.push("asks that are open already keep what they started with".to_owned());
        lines.join("\n")
    }
}

/// One open ask in the list.
pub(crate) struct Listed {
    pub(crate) handle: String,
    /// One safe line.
    pub(crate) summary: String,
    /// `auto-deny in 5m12s`, where something applies by itself.
    pub(crate) countdown: Option<String>,
    pub(crate) handed_back: bool,
}

impl Listed {
    fn line(&self) -> String {
        let state = if self.handed_back { "handed back" } else { "pending" };
        let countdown = self.countdown.as_deref().map(|c| format!("  ({c})")).unwrap_or_default();
        format!("[{state}] {}  {}{countdown}", self.handle, self.summary)
    }

    /// From the shape that surfaces see; `left_ms` until its deadline.
    pub(crate) fn of(ask: &Ask, summary: String, left_ms: Option<u64>) -> Self {
        let answer = match ask.default {
            Some(askd_wire::Decision::Allow) => "auto-allow",
            Some(askd_wire::Decision::Deny) => "auto-deny",
            None => "handed back",
        };
        Self {
            handle: ask.handle.clone(),
            summary,
            countdown: left_ms.map(|ms| format!("{answer} in {}", duration(ms))),
            handed_back: ask.requester.link == "handed_back",
        }
    }
}

fn auto(decision: Decision, ms: u64) -> String {
    let word = if decision == Decision::Allow { "auto-allow" } else { "auto-deny" };
    format!("{word} in {}", duration(ms))
}

/// That somebody changed something over the config, for whoever looks at the daemon later.
pub(crate) fn notice(session: Option<&SessionKey>, set: &Overrides) -> String {
    let text = overrides_text(set);
    match session {
        Some(session) => format!("session override for {session}: {text}"),
        None => format!("override {}: {text}", for_all(set)),
    }
}

fn for_all(set: &Overrides) -> &'static str {
    if set.is_strict() {
        "for every session, also after a restart"
    } else {
        "for every session until the daemon stops"
    }
}

/// For the log.
pub(crate) fn overrides_text(o: &Overrides) -> String {
    let decision = |d: Decision| if d == Decision::Allow { "allow" } else { "deny" };
    let mut parts = Vec::new();
    parts.extend(o.background_default.map(|d| format!("background default {}", decision(d))));
    parts.extend(o.background_timeout_ms.map(|ms| format!("background timeout {}", duration(ms))));
    parts.extend(o.safety_default.map(|d| format!("safety default {}", decision(d))));
    parts.extend(o.safety_timeout_ms.map(|ms| format!("safety timeout {}", duration(ms))));
    parts.extend(o.skip.map(|s| format!("skip-permissions {}", if s { "on" } else { "off" })));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t7_every_form_is_read_and_nothing_else() {
        let set = |text: &str| match parse(text, false) {
            Ok(Line::Set(o)) => overrides_text(&o),
            other => format!("{other:?}"),
        };
        assert_eq!(parse("/permissions", false), Ok(Line::Show));
        assert_eq!(set("/permissions default allow"), "background default allow");
        assert_eq!(set(" /permissions  default deny safety "), "safety default deny");
        assert_eq!(set("/permissions timeout 90"), "background timeout 1m30s");
        assert_eq!(set("/permissions timeout 3600 safety"), "safety timeout 1h0m");
        assert_eq!(set("/skip-permissions"), "skip-permissions on");
        assert_eq!(set("/skip-permissions off"), "skip-permissions off");
        assert_eq!(
            parse("/skip-permissions", true),
            Ok(Line::Set(Overrides { skip: Some(false), ..Overrides::default() }))
        );
        for bad in [
            "/permissions default maybe",
            "/permissions timeout 0",
            "/permissions timeout -5",
            "/permissions timeout 99999999999",
            "/permissions timeout 5 tools",
            "/permissions timeout",
            "/permission",
            "/skip-permissions maybe",
            "",
        ] {
            assert!(parse(bad, false).unwrap_err().contains("usage:"), "{bad}");
        }
    }

    #[test]
    fn t6_t7_lines_mark_overrides_and_warn() {
        let none = Overrides::default();
        let mine = Overrides { safety_default: Some(Decision::Allow), ..Overrides::default() };
        let settings = mine.over(&Settings::default());
        let in_force = InForce { settings, overrides: [&none, &mine], session: None, warnings: Vec::new() };
        let lines = in_force.lines();
        assert_eq!(
            lines[1],
            "background asks (jobs, workflow steps, background subagents): auto-deny in 6m0s"
        );
        assert_eq!(lines[2], "safety asks (doom-loop confirmations): auto-allow in 6m0s  (session override)");
        assert!(lines.iter().any(|line| line.contains("warning: unattended loops")), "{lines:?}");
        assert!(in_force.confirmation(&mine).contains("warning: unattended loops"));
    }
}
