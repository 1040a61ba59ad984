//! opencode: its own HTTP server on a loopback port, watched for asks of every session, subagents included.
//!
//! opencode keeps a subagent's ask from ACP clients, and tells nobody when an ask dies with its turn: it stays listed, and
//! a late yes may run the command all the same. So [`Opencode`] has the agent open its server behind a password, and
//! its watcher subscribes and then lists, walks from a session to its root, ends what the agent forgot to end, and
//! gives the agent no yes for it. A no of opencode takes every open ask of its session along, so it is held until the
//! others are answered. It never decides an ask and writes nothing to disk.
//!
//! Read [`book`] (what is open, and what may be told when) and [`watch`] first.

mod api;
mod book;
pub mod carry;
mod gateway;
mod shape;
mod watch;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use askd_client::random_hex;

use crate::hidden::{Hidden, HiddenAdapter, HiddenOption, HiddenReply};
use api::Server;

/// What opencode offers for every ask, in the words that it uses towards its clients.
pub const OPTIONS: [HiddenOption; 3] = [
    HiddenOption { id: "once", name: "Allow once", kind: "allow_once", reply: HiddenReply::Once },
    HiddenOption { id: "always", name: "Always allow", kind: "allow_always", reply: HiddenReply::Always },
    HiddenOption { id: "reject", name: "Reject", kind: "reject_once", reply: HiddenReply::Reject },
];

/// The password of opencode's server; whoever has it can answer asks.
pub const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USER: &str = "OPENCODE_SERVER_USERNAME";

/// How to start one opencode and watch it.
#[derive(Debug)]
pub struct Opencode {
    port: u16,
    /// The port is ours to put on the command line.
    adds_port: bool,
    adds_host: bool,
    /// Where it can be reached from here.
    host: IpAddr,
    user: String,
    password: String,
    adds_password: bool,
}

impl Opencode {
    /// For an opencode with these arguments, under the environment of this process. A port and a password that a person
    /// chose are used; else a free loopback port and 256 random bits.
    pub fn new<'a>(args: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let args: Vec<&str> = args.into_iter().take_while(|arg| *arg != "--").collect();
        let chosen = flag(&args, "--port").and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        let port = match chosen {
            Some(port) => port,
            None => free_port()?,
        };
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let given = set(PASSWORD);
        let adds_password = given.is_none();
        let password = match given {
            Some(password) => password,
            None => {
                let bits =
                    || random_hex().map_err(|error| io::Error::other(format!("no random bits: {error}")));
                bits()? + &bits()?
            }
        };
        Ok(Self {
            port,
            adds_port: chosen.is_none(),
            adds_host: flag(&args, "--hostname").is_none(),
            host: flag(&args, "--hostname").map_or(Ipv4Addr::LOCALHOST.into(), reachable),
            user: set(USER).unwrap_or_else(|| "opencode".to_owned()),
            password,
            adds_password,
        })
    }

    /// The port of its server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server answers; false when it does not within `patience`, or has ended.
    pub fn is_up(&self, patience: Duration, mut lives: impl FnMut() -> bool) -> bool {
        let server = self.server();
        let end = Instant::now() + patience;
        while Instant::now() < end && lives() {
            if server.asks(None).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(100));
        }
        false
    }

    /// Opens a way to the server for a client that is not to hear of asks, as `opencode run` would reject them; gives
    /// its address and the variable with the password.
    pub fn quiet(&self) -> io::Result<(String, (&'static str, String))> {
        let port = gateway::start(SocketAddr::from((self.host, self.port)))?;
        Ok((format!("http://127.0.0.1:{port}"), (PASSWORD, self.password.clone())))
    }

    fn server(&self) -> Server {
        let plain = format!("{}:{}", self.user, self.password);
        let address = SocketAddr::from((self.host, self.port));
        Server::new(address, format!("Basic {}", base64(plain.as_bytes())))
    }
}

impl HiddenAdapter for Opencode {
    fn prepare(&mut self, command: &mut Command) {
        if self.adds_port {
            command.arg("--port").arg(self.port.to_string());
        }
        if self.adds_host {
            command.args(["--hostname", "127.0.0.1"]);
        }
        if self.adds_password {
            command.env(PASSWORD, &self.password);
        }
    }

    fn watch(&mut self) -> io::Result<Hidden> {
        watch::start(self.server())
    }
}

/// Where a server that listens on this host is reached. A name that is not known here is left to its own failure.
fn reachable(host: &str) -> IpAddr {
    let found = host.parse().ok().or_else(|| Some((host, 0).to_socket_addrs().ok()?.next()?.ip()));
    match found.unwrap_or(Ipv4Addr::LOCALHOST.into()) {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        given => given,
    }
}

/// Value of the last `--name VALUE` or `--name=VALUE`.
fn flag<'a>(args: &[&'a str], name: &str) -> Option<&'a str> {
    args.iter().enumerate().rev().find_map(|(at, arg)| {
        let rest = arg.strip_prefix(name)?;
        if rest.is_empty() { args.get(at + 1).copied() } else { rest.strip_prefix('=') }
    })
}

/// Free at this moment; the agent takes it a moment later.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| three.get(index).copied().map_or(0, u32::from);
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or_default();
            text.push(if digit <= three.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_chose_is_left_alone() {
        let mut chosen = Opencode::new(["serve", "--port=4096", "--hostname", "0.0.0.0"]).unwrap();
        let mut command = Command::new("opencode");
        chosen.prepare(&mut command);
        assert_eq!((chosen.port(), command.get_args().count()), (4096, 0));

        let mut ours = Opencode::new(["--port", "0", "--", "--hostname"]).unwrap();
        let mut command = Command::new("opencode");
        ours.prepare(&mut command);
        let args: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(args, ["--port", &ours.port().to_string(), "--hostname", "127.0.0.1"]);
        let password = command.get_envs().find(|(name, _)| *name == PASSWORD).and_then(|(_, value)| value);
        assert_eq!(password.map(|value| value.len()), Some(64), "256 bits");
    }

    #[test]
    fn a1_the_server_is_asked_where_it_listens() {
        for (host, at) in [
            ("127.0.0.2", "127.0.0.2"),
            ("0.0.0.0", "127.0.0.1"),
            ("::", "::1"),
            ("::1", "::1"),
            ("no such host", "127.0.0.1"),
        ] {
            let server = Opencode::new(["serve", "--port", "4096", "--hostname", host]).unwrap().server();
            let expected = SocketAddr::new(at.parse().unwrap(), 4096).to_string();
            assert_eq!(server.address(), expected, "{host}");
        }
        assert_eq!(Opencode::new(["serve", "--port", "1"]).unwrap().server().address(), "127.0.0.1:1");
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
