//! The answers that people give: one, or many in one message, each with its own result.

use std::collections::BTreeSet;
use std::sync::Arc;

use askd_core::{Answer, Decision, Digest, Handle, Instance, Refusal};
use askd_wire as wire;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;

use crate::common::CommonShot;
use crate::engine::{Done, MakeAnswer};
use crate::masked::Sight;
use crate::server::Connection;

use super::App;
use super::answer_door::{cut_name, explained, refusal_of, registered_sight, surface_name};
use super::body::{Json, Report, an_ask, not_json, report_all};
use super::extract::Path;
use super::problem::Refused;

/// Asks that one bulk answer may name.
const MOST_BULK: usize = 1000;

pub(super) async fn one(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(id): Path<String>,
    Json(body): Json<wire::NamedAnswer>,
) -> Result<Response, Refused> {
    let sight = answers_sight(&app, &body.answer);
    let answer = prepared(&app, &connection, body.answer, body.by)?;
    let done = app.engine.answers(vec![(id, answer)]).await.pop().flatten();
    let shot = result(&app, &connection, done, sight).await?;
    Ok(an_ask(&shot, sight))
}

/// All of them go to the writer together, in their order: who leaves before the reply has given all of them or none.
pub(super) async fn all(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(bulk): Json<Vec<wire::BulkAnswer>>,
) -> Result<Response, Refused> {
    if bulk.len() > MOST_BULK {
        let detail = format!("more than {MOST_BULK} answers in one request");
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, wire::Code::CapReached, detail));
    }
    let agents = app.engine.instances();
    // Who may deny and no more is told of each answer what came of it: the denials among them hold.
    let denies = bulk.iter().any(|one| one.answer.decision == wire::Decision::Deny);
    let refused = refusal_of(connection.peer.as_ref(), &agents, &app.host, denies);
    let (mut given, mut waiting) = (Vec::with_capacity(bulk.len()), Vec::with_capacity(bulk.len()));
    for wire::BulkAnswer { id, answer } in bulk {
        let sight = answers_sight(&app, &answer);
        let given_now = prepared(&app, &connection, answer, None);
        let malformed = given_now.map(|answer| given.push((id.clone(), answer))).err();
        waiting.push((id, sight, malformed));
    }
    let mut done = app.engine.answers(given).await.into_iter();
    if let Some(why) = refused {
        // Each attempt is in the log; the answer to all of them is the same.
        let why = explained(&app, &connection, why).await;
        return Err(Refused::from_refusal(&Refusal::NotPermitted(why), None));
    }
    let mut reports = Vec::with_capacity(waiting.len());
    for (id, sight, malformed) in waiting {
        let result = match malformed {
            Some(refused) => Err(refused),
            None => result(&app, &connection, done.next().flatten(), sight).await,
        };
        reports.push(match result.map(|shot| shot.json(sight)) {
            Ok(Some(ask)) => Report::Answered { id, ask },
            Ok(None) => Report::Refused { id, problem: Box::new(not_json().into_problem()) },
            Err(refused) => Report::Refused { id, problem: Box::new(refused.into_problem()) },
        });
    }
    Ok(report_all(reports))
}

/// What whoever answers may see; a plain name is somebody here.
fn answers_sight(app: &App, answer: &wire::Answer) -> Sight {
    answer.surface.as_deref().and_then(|surface| registered_sight(app, surface)).unwrap_or_default()
}

/// The answer, made when its ask and the agents of that moment are known.
fn prepared(
    app: &App,
    connection: &Connection,
    body: wire::Answer,
    by: Option<String>,
) -> Result<Box<MakeAnswer>, Refused> {
    let digest: Digest = body
        .digest
        .parse()
        .map_err(|_| Refused::malformed("digest must be \"sha256:\" and 64 hexadecimal digits"))?;
    let (surface, remote) = surface_name(app, body.surface.as_deref());
    // Whoever sits here is "you"; elsewhere the surface knows whom it heard.
    let by = by.filter(|_| remote).map(|by| cut_name(&by));
    let (peer, host) = (connection.peer.clone(), app.host.clone());
    let denies = body.decision == wire::Decision::Deny;
    let answer = move |ask, agents: &BTreeSet<Instance>, own: Option<(&Instance, &Handle)>| Answer {
        ask,
        digest,
        decision: match body.decision {
            wire::Decision::Allow => Decision::Allow,
            wire::Decision::Deny => Decision::Deny,
        },
        option: body.option,
        message: body.message,
        stop: body.stop,
        surface,
        remote,
        by,
        refused: refusal_of(peer.as_ref(), agents, &host, denies).or_else(|| {
            let (own, handle) = own.filter(|_| !denies)?;
            peer.as_ref()?.named_by(own, handle, &host)
        }),
    };
    Ok(Box::new(answer))
}

/// What came of an answer. `None`: no ask has the name.
async fn result(
    app: &App,
    connection: &Connection,
    done: Option<Done>,
    sight: Sight,
) -> Result<CommonShot, Refused> {
    let done = done.ok_or_else(Refused::unknown)?;
    match done.reply {
        Ok(_) => done.shot.ok_or_else(Refused::unknown),
        Err(refusal) => {
            let shot = done.shot.as_deref();
            let refusal = match refusal {
                Refusal::NotPermitted(why) => Refusal::NotPermitted(explained(app, connection, why).await),
                other => other,
            };
            Err(Refused::from_refusal(&refusal, shot).for_sight(sight, shot))
        }
    }
}
