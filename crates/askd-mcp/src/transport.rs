//! Lines in and out beneath rmcp: a reader and a writer thread, so that neither a slow client nor a slow daemon holds the
//! other up.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, oneshot};

use crate::calls::{Calls, Said};
use crate::line::{self, Line};

/// Longest line that is taken; the rest of a longer one is skipped.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;
/// How often it is looked at whether somebody still reads, once nothing comes any more and calls are open.
const LOOK: Duration = Duration::from_millis(200);

/// Standard input and output as rmcp's transport.
pub(crate) struct Wire {
    lines: mpsc::UnboundedReceiver<String>,
    out: Sender<Out>,
    calls: Calls,
    log: fn(&str),
}

struct Out {
    line: Vec<u8>,
    /// The request that it responds to.
    id: Option<String>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Wire {
    pub(crate) fn start(calls: Calls, log: fn(&str)) -> io::Result<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        let (out, outgoing) = channel::<Out>();
        let reading = calls.clone();
        thread::Builder::new().name("from-client".to_owned()).spawn(move || read(&sender, &reading, log))?;
        let writing = calls.clone();
        thread::Builder::new().name("to-client".to_owned()).spawn(move || {
            let mut stdout = io::stdout().lock();
            for Out { line, id, written } in outgoing {
                let result = stdout.write_all(&line).and_then(|()| stdout.flush());
                if let Some(id) = id {
                    writing.responded(&id, if result.is_ok() { Said::Written } else { Said::Lost });
                }
                let _ = written.send(result);
            }
        })?;
        Ok(Self { lines, out, calls, log })
    }
}

fn read(lines: &mpsc::UnboundedSender<String>, calls: &Calls, log: fn(&str)) {
    let mut input = BufReader::new(io::stdin());
    loop {
        let mut bytes = Vec::new();
        match (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return log(&format!("reading the client: {error}")),
        }
        if bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            log("a line of more than 64 MiB is skipped");
            if skip_line(&mut input).is_err() {
                return;
            }
            continue;
        }
        let Ok(text) = String::from_utf8(bytes) else {
            log("a line that is not UTF-8 is skipped");
            continue;
        };
        let text = text.trim_matches(['\r', '\n', ' ', '\t']);
        if text.is_empty() {
            continue;
        }
        let line = match line::look(text) {
            Line::Call { id, input, rest } => {
                if !calls.keep_input(&id, input.to_owned()) {
                    // One response could not be told from the other.
                    log(&format!("a second call with the id {id} is skipped: the first is open"));
                    continue;
                }
                rest
            }
            Line::Cancel { id } => {
                // Told here and to rmcp, whose newest lifecycle does not pass every cancel on.
                calls.cancel(&id);
                text.to_owned()
            }
            Line::Other => text.to_owned(),
        };
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let part = input.fill_buf()?;
        if part.is_empty() {
            return Ok(());
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |at| at + 1);
        input.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// Nobody will ever read what is written: the other end is closed.
fn is_deserted() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&at_once)) {
        Ok(_) => fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        Err(_) => false,
    }
}

impl Wire {
    /// A line that is no MCP message. Whoever sent it with an id is told, and does not wait for ever.
    fn refuse(&self, line: &str, why: &serde_json::Error) {
        (self.log)(&format!("a line that is no MCP message is skipped: {why}"));
        let Some(id) = line::request_id(line) else { return };
        self.calls.forget_input(&line::name(id));
        let message = serde_json::Value::from(why.to_string());
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32600,\"message\":{message}}}}}\n"
        );
        let (written, _) = oneshot::channel();
        // When the writer has ended nobody reads.
        let _ = self.out.send(Out { line: line.into_bytes(), id: None, written });
    }
}

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "standard input and output".into()
    }

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let id = id.map(|id| id.into_json_value().to_string());
        let (written, result) = oneshot::channel();
        let queued = serde_json::to_vec(&item).map_err(io::Error::other).and_then(|mut line| {
            line.push(b'\n');
            let closed = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the writer has ended");
            self.out.send(Out { line, id, written }).map_err(closed)
        });
        async move {
            queued?;
            result.await.map_err(io::Error::other)?
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let Some(line) = self.lines.recv().await else { break };
            match serde_json::from_str(&line) {
                Ok(message) => return Some(message),
                Err(error) => self.refuse(&line, &error),
            }
        }
        // The client's requests have ended. That answers nothing: a call that is open gets its answer as long as
        // somebody reads it.
        while self.calls.any_open() && !is_deserted() {
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
