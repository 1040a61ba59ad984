//! What `askd doctor` says of pi.

use std::path::Path;

use askd_agents::pi::found;
use askd_agents::spool;
use askd_client::daemon;

use super::doctor::Report;
use super::setup_pi;
use crate::claude::on_path;
use crate::context::Desk;
use crate::out::safe;

pub(super) fn pi(desk: &Desk, report: &mut Report) {
    let program = on_path("pi");
    let Ok(dir) = setup_pi::agent_dir() else { return };
    // Who has no pi need not hear of it.
    if !dir.is_dir() {
        return;
    }
    let project = std::env::current_dir().ok();
    let findings = found::look(&dir, project.as_deref());
    if let Some(extension) = &findings.extension {
        let program = program.map(|program| format!(", {}", safe(&program.to_string_lossy())));
        report.good(format!(
            "pi{}: permission extension {} in {}",
            program.unwrap_or_default(),
            safe(findings.version.as_deref().unwrap_or("of an unknown version")),
            safe(&extension.to_string_lossy())
        ));
    }
    for (problem, todo) in setup_pi::gaps(&findings) {
        report.problem(format!("pi: {problem}"), todo);
    }
    let forwarding = found::forwarding_dir(&dir);
    let served = setup_pi::is_served(desk, &forwarding);
    let is_good = forwarding_directory(&forwarding, served, report);
    if served && is_good && daemon::connect_answer(&desk.places).is_err() {
        // Nobody serves it, which is said where the settings are.
    } else if served && is_good {
        report.good(format!("pi: the daemon serves {}", safe(&forwarding.to_string_lossy())));
    } else if served {
        // What is in the way was said.
    } else if findings.extension.is_some() {
        report.note(
            "pi: what its subagents ask does not come to askd",
            "askd setup pi; or for one run: askd run -- pi …",
        );
    }
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if served && findings.needs_hint() && !set("PI_IS_SUBAGENT") {
        report.note(
            "pi: PI_IS_SUBAGENT is not set here: this version's subagents without a screen deny instead of asking",
            "export PI_IS_SUBAGENT=1 where pi starts; askd run -- pi … sets it",
        );
    }
}

/// What is in the way in the directory itself, and who serves it. True: nothing is in the way.
fn forwarding_directory(dir: &Path, served: bool, report: &mut Report) -> bool {
    let seen = spool::found::look(dir);
    let mut is_good = true;
    if let Some(why) = &seen.locks {
        report.problem(
            format!("no forwarding directory can be served: {}", safe(why)),
            "it has to be removed, by whoever made it or an administrator; askd tries again by itself",
        );
        is_good = false;
    }
    if let Some(why) = &seen.directory {
        report.problem(
            format!("pi: its forwarding directory cannot be served: {}", safe(why)),
            "give it back to yourself, for nobody else: chown, chmod 700",
        );
        is_good = false;
    }
    for session in &seen.sessions {
        let id = safe(&session.id);
        match session.server {
            Some(who) => {
                let who = who.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                report.good(format!("pi: session {id} is served by askd{who}, {} waiting", session.waiting));
            }
            None if session.waiting > 0 && served && is_good => {
                report.problem(
                    format!("pi: session {id} has {} requests that nobody at askd serves", session.waiting),
                    "askd status: does the daemon run?",
                );
                is_good = false;
            }
            None => {}
        }
    }
    is_good
}
