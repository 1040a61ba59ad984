//! `/v1/permissions`: the policies in force and a person's changes of them, none of them written to the config.

use std::sync::Arc;

use askd_core::{Command, Decision, Overrides, Refusal, SessionKey};
use askd_wire as wire;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::engine::{Permissions, Whose};
use crate::masked::Sight;
use crate::permissions::{InForce, Line, Listed, parse};
use crate::server::Connection;
use crate::view::{Shot, decision_view, text_action};

use super::App;
use super::answer_door::{person_who_closes, person_who_sets, sight, stopping};
use super::body::{Json, reply};
use super::extract::Query;
use super::pages::Pages;
use super::problem::Refused;

/// Columns for an ask's action in the list.
const ACTION_COLUMNS: usize = 80;

#[derive(Debug, Deserialize)]
pub(super) struct Of {
    /// `<agent>/<session>`; absent: what holds for every session.
    session: Option<String>,
}

pub(super) async fn show(State(app): State<App>, Query(of): Query<Of>) -> Result<Response, Refused> {
    app.live.refresh(&app.engine, &app.hub).await;
    let session = of.session.as_deref().map(key).transpose()?;
    view(&app, session).await
}

pub(super) async fn change(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(body): Json<wire::PermissionsChange>,
) -> Result<Response, Refused> {
    person_who_closes(&app, &connection).await?;
    let session = body.session.as_deref().map(key).transpose()?;
    let value = body.default.map(|d| match d {
        wire::Decision::Allow => Decision::Allow,
        wire::Decision::Deny => Decision::Deny,
    });
    let timeout_ms = match body.timeout_secs {
        Some(0) => return Err(Refused::malformed("timeout_secs must be above 0")),
        secs => secs.map(|s| s.saturating_mul(1000)),
    };
    let mut overrides = Overrides { skip: body.skip, ..Overrides::default() };
    if body.safety {
        (overrides.safety_default, overrides.safety_timeout_ms) = (value, timeout_ms);
    } else {
        (overrides.background_default, overrides.background_timeout_ms) = (value, timeout_ms);
    }
    if overrides.may_loosen() {
        person_who_sets(&app, &connection).await?;
    }
    set(&app, session.clone(), overrides).await?;
    view(&app, session).await
}

/// A line as a person typed it, `/permissions …` or `/skip-permissions …`.
pub(super) async fn command(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(body): Json<wire::PermissionsCommand>,
) -> Result<Response, Refused> {
    app.live.refresh(&app.engine, &app.hub).await;
    let session = body.session.as_deref().map(key).transpose()?;
    let sight = sight(&app, body.surface.as_deref())?;
    let now = app.engine.permissions(session.clone()).await.ok_or_else(stopping)?;
    let text = match parse(&body.text, now.settings.skip).map_err(Refused::malformed)? {
        Line::Show => {
            let open = app.engine.opened(Whose::Everybodys).await.ok_or_else(stopping)?.asks;
            let boot_ms = app.clock.now();
            let mut pages = Pages::new(&app.engine, open);
            let mut asks = Vec::new();
            while let Some(page) = pages.next().await.map_err(|_| stopping())? {
                asks.extend(page.iter().map(|shot| listed(shot, boot_ms, sight)));
            }
            in_force(&app, &now, session.as_ref()).text(&asks)
        }
        Line::Set(overrides) => {
            person_who_closes(&app, &connection).await?;
            if overrides.may_loosen() {
                person_who_sets(&app, &connection).await?;
            }
            set(&app, session.clone(), overrides.clone()).await?;
            let now = app.engine.permissions(session.clone()).await.ok_or_else(stopping)?;
            in_force(&app, &now, session.as_ref()).confirmation(&overrides)
        }
    };
    Ok(reply(StatusCode::OK, &wire::PermissionsText { text }))
}

async fn set(app: &App, session: Option<SessionKey>, overrides: Overrides) -> Result<(), Refused> {
    let by = "you".to_owned();
    let done = app.engine.run(Command::SetOverrides { session, overrides, by }).await;
    done.reply.map(drop).map_err(|refusal: Refusal| Refused::from_refusal(&refusal, None))
}

async fn view(app: &App, session: Option<SessionKey>) -> Result<Response, Refused> {
    let now = app.engine.permissions(session.clone()).await.ok_or_else(stopping)?;
    let s = &now.settings;
    let pair = |default, ms: u64, is_set: fn(&Overrides) -> bool| wire::TimedPolicy {
        timeout_secs: ms / 1000,
        default: decision_view(default),
        overridden: is_set(&now.session) || is_set(&now.everywhere),
    };
    let permissions = wire::PermissionsView {
        session: session.as_ref().map(ToString::to_string),
        background: pair(s.background_default, s.background_timeout_ms, |o| {
            o.background_default.is_some() || o.background_timeout_ms.is_some()
        }),
        safety: pair(s.safety_default, s.safety_timeout_ms, |o| {
            o.safety_default.is_some() || o.safety_timeout_ms.is_some()
        }),
        skip: s.skip,
        queue_cap: s.queue_cap,
        remote_timeout_secs: s.remote_timeout_ms / 1000,
        remote_action: decision_view(s.remote_action),
        lines: in_force(app, &now, session.as_ref()).lines(),
    };
    Ok(reply(StatusCode::OK, &permissions))
}

fn in_force<'a>(app: &App, now: &'a Permissions, session: Option<&'a SessionKey>) -> InForce<'a> {
    InForce {
        settings: now.settings.clone(),
        overrides: [&now.everywhere, &now.session],
        session,
        warnings: app.live.warnings(),
    }
}

fn listed(shot: &Shot, now: askd_core::Now, sight: Sight) -> Listed {
    let ask = &shot.ask.ask;
    let action = text_action(&ask.action);
    let summary = match sight {
        Sight::Full => askd_text::summary(&action, ACTION_COLUMNS),
        Sight::Masked => askd_text::summary_masked(&action, ACTION_COLUMNS),
    };
    Listed::of(&shot.view_for(sight), summary, shot.countdown_ms(now))
}

fn key(text: &str) -> Result<SessionKey, Refused> {
    match text.split_once('/') {
        Some((agent, session)) if !agent.is_empty() && !session.is_empty() => {
            Ok(SessionKey { agent: agent.to_owned(), session: session.to_owned() })
        }
        _ => Err(Refused::malformed("a session is named <agent>/<session>")),
    }
}
