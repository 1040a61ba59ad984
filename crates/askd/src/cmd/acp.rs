//! `askd acp -- AGENT…`: between an ACP client and an ACP agent. Standard input and output are the protocol's.

use std::time::Duration;

use askd_agents::acp::{Dismiss, Options};
use askd_client::daemon;
use askd_config::{Acp, ClientDismiss, Subagents};

use super::config;
use super::run::{NOT_FOUND, NOT_RUN};
use crate::cli::{AcpArgs, AcpSubagents};
use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out::{self, one_line, safe};

pub(crate) fn acp(desk: &Desk, args: AcpArgs) -> Done {
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
        command: args.command,
        places: desk.places.clone(),
        exe: daemon::own_exe(),
        dismiss: match settings.client_dismiss {
            ClientDismiss::Ignore => Dismiss::Ignore,
            ClientDismiss::Cancel => Dismiss::Cancel,
        },
        grace: Duration::from_secs(settings.client_grace_secs),
        translate,
        adapter: None,
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
