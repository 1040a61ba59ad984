//! `askd acp -- AGENT…`: between an ACP client and an ACP agent. Standard input and output are the protocol's.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use askd_agents::acp::{Dismiss, Options};
use askd_agents::hidden::HiddenAdapter;
use askd_agents::opencode::Opencode;
use askd_client::{Places, daemon};
use askd_config::{Acp, ClientDismiss, Subagents};

use super::config;
use super::run::{NOT_FOUND, NOT_RUN};
use crate::cli::{AcpArgs, AcpSubagents};
use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out::{self, one_line, safe};

pub(crate) fn acp(desk: &Desk, args: AcpArgs) -> Done {
    if let Some(watched) = askd_agents::acp::behind_another() {
        return behind_another(&args.command, watched);
    }
    let installed = places(&args.dir, &args.config_home, &args.state_home)?.map(|places| Desk { places });
    let desk = installed.as_ref().unwrap_or(desk);
    let settings = match config::load(desk) {
        Ok(config) => config.settings().acp.clone(),
        Err(errors) => {
            for error in errors {
                out::tell(&format!("askd acp: {error}; the defaults of [acp] are used"));
            }
            Acp::default()
        }
    };
    let translate = match args.subagents {
        Some(AcpSubagents::Translate) => true,
        Some(AcpSubagents::Auto) => false,
        None => settings.subagents == Subagents::Translate,
    };
    let options = Options {
        adapter: adapter(&args.command),
        command: args.command,
        places: desk.places.clone(),
        exe: daemon::own_exe(),
        dismiss: match settings.client_dismiss {
            ClientDismiss::Ignore => Dismiss::Ignore,
            ClientDismiss::Cancel => Dismiss::Cancel,
        },
        grace: Duration::from_secs(settings.client_grace_secs),
        translate,
        log: |text| out::tell(&one_line(text)),
    };
    askd_agents::acp::run(options).map_err(|error| {
        let named = safe(&error.program);
        match error.source.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::new(NOT_FOUND, format!("{named}: there is no such program"))
            }
            _ => Failure::new(NOT_RUN, format!("{named}: {}", error.source)),
        }
    })
}

/// Another `askd acp` before this one asks already: the agent runs as it is.
fn behind_another(command: &[OsString], watched: bool) -> Done {
    if !watched && adapter(command).is_some() {
        return Err(Failure::wrong_use(
            "another askd acp before this one cannot see what opencode asks for its subagents: leave that one out",
        ));
    }
    out::tell("askd acp: another askd acp before this one asks already; this one stands aside");
    let Some((program, words)) = command.split_first() else {
        return Err(Failure::wrong_use("an agent's command line is needed"));
    };
    let error = Command::new(program).args(words).exec();
    Err(super::run::not_started(program, &error))
}

/// The places that setup wrote down; they beat the environment of the client.
pub(super) fn places(
    dir: &Option<OsString>,
    config_home: &Option<OsString>,
    state_home: &Option<OsString>,
) -> Result<Option<Places>, Failure> {
    let flags = [("--dir", dir), ("--config-home", config_home), ("--state-home", state_home)];
    let given = |(name, value): (&str, &Option<OsString>)| Some([name.into(), value.clone()?]);
    let mut words: Vec<OsString> = flags.into_iter().filter_map(given).flatten().collect();
    Ok(Places::take_from_args(&mut words)?)
}

/// For opencode, which keeps its subagents' asks to itself: started by its own name, or by a package runner
/// (`npx opencode-ai acp`).
fn adapter(command: &[OsString]) -> Option<Box<dyn HiddenAdapter>> {
    let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let is_opencode = |word: &&str| {
        let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        matches!(name, "opencode" | "opencode-ai")
    };
    // askd's own word is one of them where it stands behind another program.
    let is_its = |at: &usize| words[*at] == "acp" && words[..*at].iter().any(is_opencode);
    let acp = (0..words.len()).find(is_its)?;
    match Opencode::new(words[acp..].iter().copied()) {
        Ok(adapter) => Some(Box::new(adapter)),
        Err(error) => {
            out::tell(&format!("askd acp: asks of subagents cannot be seen: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a1_opencode_is_known_by_its_name() {
        let known = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            adapter(&words).is_some()
        };
        assert!(known(&["opencode", "acp"]) && known(&["/opt/bin/opencode", "--print-logs", "acp"]));
        assert!(known(&["env", "X=1", "askd", "acp", "--", "opencode", "acp"]));
        assert!(known(&["npx", "-y", "opencode-ai@1.18.33", "acp"]));
        assert!(
            !known(&["codex-acp"]) && !known(&["opencode", "serve"]) && !known(&["agent", "acp", "opencode"])
        );
    }
}
