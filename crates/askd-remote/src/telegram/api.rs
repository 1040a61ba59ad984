//! The Bot API over HTTPS. The token is in the path of every request, so no error of the client below is ever told as
//! it is.

use std::time::Duration;

use askd_config::Secret;
use serde_json::Value;
use ureq::{Agent, Proxy};

use super::call::Sent;

/// Largest reply that is read, in bytes.
const MOST: u64 = 8 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);
/// What a call may take beyond the time that the server was asked to wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A way to one bot. Each clone of the agent inside has connections of its own.
#[derive(Debug, Clone)]
pub struct Api {
    url: String,
    proxy: Option<Proxy>,
    token: Secret,
}

/// The proxy is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no address of a proxy")]
pub struct NoProxy;

/// Connections of one thread.
#[derive(Debug)]
pub struct Line {
    api: Api,
    agent: Agent,
}

impl Api {
    /// `url`: the server, without a slash at its end. `proxy`: on the way there; empty for none.
    pub fn new(url: &str, proxy: &str, token: Secret) -> Result<Self, NoProxy> {
        // What does not leave this machine needs none, and is not encrypted.
        let proxy = match (proxy, url.starts_with("https://")) {
            ("", _) | (_, false) => None,
            (proxy, true) => Some(Proxy::new(proxy).map_err(|_| NoProxy)?),
        };
        Ok(Self { url: url.to_owned(), proxy, token })
    }

    /// A new connection, made when it is first needed.
    pub fn line(&self) -> Line {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Another address would get the token.
            .max_redirects(0)
            // Never one of the environment: whoever starts the daemon would say where the token goes.
            .proxy(self.proxy.clone())
            .timeout_connect(Some(CONNECT))
            .max_idle_connections(2)
            .user_agent("askd")
            .build();
        Line { api: self.clone(), agent: config.new_agent() }
    }
}

impl Line {
    /// Makes a call and waits for its reply. `wait`: how long the server may hold it.
    pub fn call(&self, method: &str, body: &Value, wait: Duration) -> Sent {
        let url = format!("{}/bot{}/{method}", self.api.url, self.api.token.expose());
        let request = self
            .agent
            .post(&url)
            .config()
            .timeout_global(Some(wait + PATIENCE))
            .build()
            .header("content-type", "application/json");
        match request.send(body.to_string()) {
            Ok(mut response) => {
                let status = response.status().as_u16();
                if (300..400).contains(&status) {
                    return Sent::Unreachable(
                        "the Bot API server sends elsewhere, which is not followed".to_owned(),
                    );
                }
                match response.body_mut().with_config().limit(MOST).read_to_vec() {
                    Ok(body) => Sent::read(status, &body),
                    Err(error) => Sent::Unreachable(told(&error)),
                }
            }
            Err(error) => Sent::Unreachable(told(&error)),
        }
    }
}

/// In our words: what the client says may have the address in it.
fn told(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "the Bot API server's name is not found".to_owned(),
        ureq::Error::Timeout(_) => "the Bot API server did not answer in time".to_owned(),
        ureq::Error::Io(error) => format!("the Bot API server cannot be reached ({})", error.kind()),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            "the Bot API server's certificate is not trusted".to_owned()
        }
        ureq::Error::ConnectProxyFailed(_) => {
            "the proxy on the way to the Bot API server does not let it through".to_owned()
        }
        ureq::Error::BodyExceedsLimit(_) => "the Bot API server's reply is too large".to_owned(),
        _ => "the Bot API server cannot be reached".to_owned(),
    }
}
