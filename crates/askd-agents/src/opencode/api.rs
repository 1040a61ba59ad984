//! The few routes of opencode's server that matter here, each a short exchange of its own.

use std::net::SocketAddr;
use std::time::Duration;

use askd_client::{HttpError, Loopback, LoopbackEvents};
use serde_json::{Value, json};

use crate::hidden::HiddenReply;

/// For any single exchange. In its very first moments the server can let one hang.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub(super) struct Server {
    http: Loopback,
    address: SocketAddr,
}

/// Why an exchange brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("opencode's server replied {0}")]
    Status(u16),
    #[error("opencode's server replied something else than JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Server {
    pub(super) fn new(address: SocketAddr, authorization: String) -> Self {
        Self { http: Loopback::new(address, Some(authorization)), address }
    }

    /// For people.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Events of every project directory that this server works in.
    pub(super) fn events(&self) -> Result<LoopbackEvents, HttpError> {
        self.http.events("/global/event", PATIENCE)
    }

    /// The open asks of one directory; `None`: of the one that the server was started in.
    pub(super) fn asks(&self, directory: Option<&str>) -> Result<Vec<Value>, ApiError> {
        match self.get("/permission", directory)? {
            Value::Array(asks) => Ok(asks),
            _ => Ok(Vec::new()),
        }
    }

    /// The sessions of a directory that work on something, by id. An ask of any other is a leftover.
    pub(super) fn busy(&self, directory: Option<&str>) -> Result<Value, ApiError> {
        self.get("/session/status", directory)
    }

    pub(super) fn session(&self, id: &str, directory: Option<&str>) -> Result<Value, ApiError> {
        self.get(&format!("/session/{}", escape(id)), directory)
    }

    /// One message with its parts.
    pub(super) fn message(
        &self,
        session: &str,
        id: &str,
        directory: Option<&str>,
    ) -> Result<Value, ApiError> {
        self.get(&format!("/session/{}/message/{}", escape(session), escape(id)), directory)
    }

    /// The newest messages of a session.
    pub(super) fn messages(&self, session: &str, directory: Option<&str>) -> Result<Value, ApiError> {
        let mut target = format!("/session/{}/message?limit=20", escape(session));
        if let Some(directory) = directory {
            target.push_str(&format!("&directory={}", escape(directory)));
        }
        self.fetch(&target)
    }

    /// False: the server does not have it open.
    pub(super) fn reply(
        &self,
        id: &str,
        directory: Option<&str>,
        reply: HiddenReply,
        message: Option<&str>,
    ) -> Result<bool, ApiError> {
        let word = match reply {
            HiddenReply::Once => "once",
            HiddenReply::Always => "always",
            HiddenReply::Reject => "reject",
        };
        let mut body = json!({"reply": word});
        if let Some(message) = message.filter(|_| reply == HiddenReply::Reject) {
            body["message"] = message.into();
        }
        let target = within(&format!("/permission/{}/reply", escape(id)), directory);
        let reply = self.http.call("POST", &target, Some(body.to_string().as_bytes()), PATIENCE)?;
        match reply.status {
            200..300 => Ok(true),
            404 => Ok(false),
            other => Err(ApiError::Status(other)),
        }
    }

    fn get(&self, route: &str, directory: Option<&str>) -> Result<Value, ApiError> {
        self.fetch(&within(route, directory))
    }

    fn fetch(&self, target: &str) -> Result<Value, ApiError> {
        let reply = self.http.call("GET", target, None, PATIENCE)?;
        match reply.status {
            200..300 => Ok(serde_json::from_slice(&reply.body)?),
            other => Err(ApiError::Status(other)),
        }
    }
}

/// Each directory is an instance of its own in the server, with asks of its own.
fn within(route: &str, directory: Option<&str>) -> String {
    match directory {
        Some(directory) => format!("{route}?directory={}", escape(directory)),
        None => route.to_owned(),
    }
}

fn escape(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}
