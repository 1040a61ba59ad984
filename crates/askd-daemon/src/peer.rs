//! Who is at the other end of a socket, and whether it is an agent answering for the person (security.md 1).
//!
//! Refused is any process in an *agent's* tree: below the agent in the chain of parents, in a POSIX session that was
//! made there, with the marks that agents leave in the environment of what they start, or an orphan without a terminal
//! in the control group of a live agent. A process of the same user that types into another terminal cannot be told
//! apart.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use askd_core::{Handle, Instance};

use crate::shell;

/// Variables that agents set for what they start. Claude Code sets the first four for every shell command and hook.
const AGENT_MARKS: [&str; 6] = [
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_PID",
    "AI_AGENT",
    "ASKD_OWNER",
];
/// Programs above a person's shells: terminals, multiplexers, logins, managers of sessions.
const ABOVE_SHELLS: [&str; 8] =
    ["init", "login", "screen", "sshd", "sshd-session", "systemd", "tmux", "tmux: server"];
/// Surfaces live in the daemon's own process, and connect from there.
static HAS_GUESTS: AtomicBool = AtomicBool::new(false);
/// Longest chain of parents that is followed.
const DEEPEST: usize = 256;

/// A process as it was when it connected. What it does later with the connection counts as its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    pid: u32,
    /// The process and its parents, up to the first one; empty when it was gone before it could be looked at.
    chain: Vec<Process>,
    /// The leader of its POSIX session and that one's parents.
    leader: Vec<Process>,
    mark: Option<String>,
    /// Shells of these that somebody types into.
    shells: BTreeSet<u32>,
    /// The topmost of the chain, where above it there is only the first process or a session manager.
    orphan: Option<Process>,
    cgroup: Option<String>,
}

/// How a process hangs together with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// It is the agent's process of this number, or below it.
    Below(u32),
    LetGo {
        by: u32,
        orphan: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    start: u64,
}

/// From here on connections of this very process are those of parts that live in it.
pub(crate) fn trust_guests() {
    HAS_GUESTS.store(true, Ordering::Relaxed);
}

/// A part that lives in this very process. The kernel says who connected, and no other process can have its number.
pub(crate) fn is_guest(pid: u32) -> bool {
    pid == std::process::id() && HAS_GUESTS.load(Ordering::Relaxed)
}

impl Peer {
    /// Looks at a process of this machine.
    pub(crate) fn look(pid: u32) -> Self {
        let Some(stat) = Stat::of(pid) else { return Self { pid, ..Self::default() } };
        let chain = chain(pid);
        let leader = if stat.session == pid { Vec::new() } else { chain_of_leader(stat.session) };
        let mark = chain.iter().chain(&leader).find_map(|p| agent_mark(p.pid));
        let shells =
            chain.iter().chain(&leader).map(|p| p.pid).filter(|pid| is_persons_shell(*pid)).collect();
        Self { pid, mark, shells, orphan: orphan(&chain), cgroup: cgroup(pid), chain, leader }
    }

    /// Why this process may not answer, or `None` when it may.
    pub(crate) fn refusal(&self, agents: &BTreeSet<Instance>, host: &str) -> Option<String> {
        if is_guest(self.pid) {
            return None;
        }
        if self.chain.is_empty() {
            return Some(format!(
                "process {} was gone before it could be checked who is answering",
                self.pid
            ));
        }
        match (self.tie(agents, host), &self.mark) {
            (Some(Tie::Below(agent)), _) => {
                Some(format!("process {} was started by the agent (process {agent})", self.pid))
            }
            (_, Some(mark)) => Some(format!("process {} was started by an agent ({mark} is set)", self.pid)),
            (Some(Tie::LetGo { by, orphan }), None) => Some(format!(
                "process {} hangs on process {orphan}, which began after the agent (process {by}), in its control group \
                 and with nobody above it",
                self.pid
            )),
            (None, None) => None,
        }
    }

    /// Why this process may not allow the ask of this handle: a forwarded request, which is a file, names it or one above
    /// it as the process that asks. That need not be so, and it is said as what it is.
    pub(crate) fn named_by(&self, named: &Instance, handle: &Handle, host: &str) -> Option<String> {
        if is_guest(self.pid) {
            return None;
        }
        let how = match self.tie(&BTreeSet::from([named.clone()]), host)? {
            Tie::Below(pid) if pid == self.pid => format!("process {pid}"),
            Tie::Below(pid) => format!("process {pid}, below which process {} runs,", self.pid),
            Tie::LetGo { by, orphan } => format!(
                "process {by}, in whose control group process {} hangs on the later process {orphan},",
                self.pid
            ),
        };
        Some(format!(
            "{how} is named by the forwarded request {handle} as its own process: while that is open nothing is \
             allowed or loosened from there; do it from a terminal that is not below it, or deny {handle}"
        ))
    }

    /// How this process hangs together with one of these.
    fn tie(&self, agents: &BTreeSet<Instance>, host: &str) -> Option<Tie> {
        if let Some(agent) = self.agent_above(agents, host) {
            return Some(Tie::Below(agent.pid));
        }
        // Whatever an agent starts and lets go of ends up below the first process, in the agent's control group and
        // younger than the agent.
        let orphan = self.orphan.as_ref().filter(|_| self.cgroup.is_some())?;
        let lives = |a: &&Instance| a.host == host && start_of(a.pid) == Some(a.start);
        let mut older = agents.iter().filter(lives).filter(|a| a.start <= orphan.start);
        let agent = older.find(|a| cgroup(a.pid) == self.cgroup)?;
        Some(Tie::LetGo { by: agent.pid, orphan: orphan.pid })
    }

    /// Why this process may not deny, make stricter, stop or restart.
    ///
    /// Which process is an agent is the word of a requester, and wrong where an agent names the terminal program that
    /// its person uses. So nobody is kept from these by a name alone in a shell that somebody types into, at the named
    /// process or below it. A mark that an agent left is no such word.
    pub(crate) fn refusal_to_close(&self, agents: &BTreeSet<Instance>, host: &str) -> Option<String> {
        self.refusal(agents, host)?;
        let named: BTreeSet<Instance> =
            agents.iter().filter(|agent| !self.is_typed_into_below(agent, host)).cloned().collect();
        self.refusal(&named, host)
    }

    /// Somebody types into a shell between this process and that agent, or this one hangs on nothing above such a shell.
    fn is_typed_into_below(&self, agent: &Instance, host: &str) -> bool {
        let up_to = |chain: &'_ [Process]| chain.iter().position(|p| is_it(agent, p, host)).map(|at| at + 1);
        let below = match (up_to(&self.chain), up_to(&self.leader)) {
            (Some(count), _) => &self.chain[..count],
            (None, Some(count)) => &self.leader[..count],
            (None, None) => &self.chain[..],
        };
        below.iter().any(|p| self.shells.contains(&p.pid))
    }

    /// The agent among these that this process is, or is below.
    pub(crate) fn agent_above<'a>(&self, agents: &'a BTreeSet<Instance>, host: &str) -> Option<&'a Instance> {
        let mut all = self.chain.iter().chain(&self.leader);
        all.find_map(|p| agents.iter().find(|agent| is_it(agent, p, host)))
    }

    /// The mark of an agent in the environment of this process or of one above it.
    pub(crate) fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }
}

fn is_it(agent: &Instance, process: &Process, host: &str) -> bool {
    agent.host == host && agent.pid == process.pid && (agent.start == 0 || agent.start == process.start)
}

/// Start time of a process in clock ticks since boot.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|s| s.start)
}

/// A process has ended, or its number is another's now. `start` 0: it is not known. What cannot be looked at has not ended.
pub(crate) fn is_gone(pid: u32, start: u64) -> bool {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(bytes) => Stat::parse(&String::from_utf8_lossy(&bytes))
            .is_some_and(|stat| stat.is_dead || (start != 0 && stat.start != start)),
        // It may end while it is being read.
        Err(error) => {
            error.kind() == ErrorKind::NotFound
                || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
        }
    }
}

/// A process is `top` or below it.
pub(crate) fn is_within(pid: u32, top: u32) -> bool {
    chain(pid).iter().any(|p| p.pid == top)
}

/// Why a process at or above a requester is not the agent that it speaks for: an agent that named the person's own
/// shell would keep the person from answering there. `None`: it may be.
pub(crate) fn not_its_agent(pid: u32, requester: u32) -> Option<&'static str> {
    let chain = chain(requester);
    let at = chain.iter().position(|p| p.pid == pid)?;
    if at == 0 {
        return None;
    }
    // What an agent starts carries marks; the agent itself is the first one above all of these.
    if chain.iter().rposition(|p| agent_mark(p.pid).is_some()).is_some_and(|top| at > top + 1) {
        return Some("is above the agent whose marks the requester carries");
    }
    if comm(pid).is_some_and(|name| ABOVE_SHELLS.contains(&name.as_str())) {
        return Some("manages sessions and is no agent");
    }
    if is_persons_shell(pid) {
        return Some("is a shell that somebody types into");
    }
    // Whatever name a terminal program has: what is above such a shell started it for a person.
    let mut between = chain[..at].iter();
    between.any(|p| is_persons_shell(p.pid)).then_some("is above a shell that somebody types into")
}

/// A shell that somebody types into, or what shells are started by.
pub(crate) fn is_persons(pid: u32) -> bool {
    comm(pid).is_none_or(|name| ABOVE_SHELLS.contains(&name.as_str())) || is_persons_shell(pid)
}

/// It runs as the user that the daemon runs as.
pub(crate) fn is_own_users(pid: u32) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == us)
}

/// It leads a session with a terminal, and runs no script.
fn is_persons_shell(pid: u32) -> bool {
    let leads = Stat::of(pid).is_some_and(|stat| stat.session == pid && stat.tty != 0);
    let Some(name) = comm(pid).filter(|name| leads && shell::NAMES.contains(&name.as_str())) else {
        return false;
    };
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command);
    let arguments: Vec<&str> = command.split('\0').skip(1).filter(|argument| !argument.is_empty()).collect();
    shell::is_typed_into(&name, &arguments)
}

/// The topmost shell that somebody types into, of this process, its parents and what leads its POSIX session: its number
/// and start.
pub(crate) fn top_shell(pid: u32) -> Option<(u32, u64)> {
    let top = |chain: Vec<Process>| chain.into_iter().rfind(|p| is_persons_shell(p.pid));
    let leaders = || Stat::of(pid).map(|stat| chain_of_leader(stat.session));
    let shell = top(chain(pid)).or_else(|| leaders().and_then(top))?;
    Some((shell.pid, shell.start))
}

/// What started a process, as long as it lives: other requesters of the same agent are below it too.
pub(crate) fn parent_of(pid: u32) -> Option<(u32, u64)> {
    let parent = Stat::of(pid)?.parent;
    (parent > 1).then_some(())?;
    Some((parent, start_of(parent)?))
}

/// The terminal that a process reads from.
pub(crate) fn terminal_of(pid: u32) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/fd/0")).ok()?;
    let text = target.to_str()?;
    (text.starts_with("/dev/pts/") || text.starts_with("/dev/tty")).then(|| text.to_owned())
}

fn chain_of_leader(session: u32) -> Vec<Process> {
    if session == 0 { Vec::new() } else { chain(session) }
}

fn chain(pid: u32) -> Vec<Process> {
    let mut out: Vec<Process> = Vec::new();
    let mut at = pid;
    while at != 0 && out.len() < DEEPEST {
        let Some(stat) = Stat::of(at) else { break };
        out.push(Process { pid: at, start: stat.start });
        at = stat.parent;
    }
    out
}

/// The process right below the first one or a session manager.
fn orphan(chain: &[Process]) -> Option<Process> {
    chain.windows(2).find_map(|pair| {
        let manager = pair[1].pid == 1 || comm(pair[1].pid).is_some_and(|name| name == "systemd");
        manager.then(|| pair[0].clone())
    })
}

fn comm(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// Control groups of a process, as the kernel writes them.
pub(crate) fn cgroup(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

fn agent_mark(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut names = environment
        .split(|b| *b == 0)
        .filter_map(|var| std::str::from_utf8(var.split(|b| *b == b'=').next()?).ok());
    names.find(|name| AGENT_MARKS.contains(name)).map(str::to_owned)
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// It runs no more; whoever started it has not asked yet how it ended.
    is_dead: bool,
    parent: u32,
    session: u32,
    tty: i64,
    start: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        // The name may hold anything, also bytes that are no text.
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may hold some itself.
        let rest = text.get(text.rfind(')')? + 1..)?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            // Its first thread may have ended before the others.
            is_dead: matches!(*fields.first()?, "Z" | "X" | "x") && matches!(*fields.get(17)?, "0" | "1"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            tty: fields.get(4)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        /// A child that waits for its standard input to close.
        fn start(set_up: impl FnOnce(&mut Command)) -> Self {
            let mut command = Command::new("cat");
            command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null());
            set_up(&mut command);
            let sleeper = Self(command.spawn().unwrap());
            // The environment is the child's own only after exec.
            while fs::read_to_string(format!("/proc/{}/comm", sleeper.0.id())).unwrap().trim() != "cat" {
                std::thread::yield_now();
            }
            sleeper
        }

        fn look(&self) -> Peer {
            Peer::look(self.0.id())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn agent(pid: u32) -> BTreeSet<Instance> {
        [Instance { host: "h".to_owned(), pid, start: start_of(pid).unwrap() }].into()
    }

    #[test]
    fn s1_a_process_below_the_agent_is_refused() {
        let child = Sleeper::start(|_| {});
        let me = std::process::id();
        assert!(child.look().refusal_to_close(&agent(me), "h").unwrap().contains("started by the agent"));
        assert!(child.look().refusal(&agent(me), "h").unwrap().contains("started by the agent"));
        assert_eq!(child.look().refusal(&BTreeSet::new(), "h"), None);
    }

    #[test]
    fn s1_another_host_and_a_reused_number_do_not_count() {
        let child = Sleeper::start(|_| {});
        let me = std::process::id();
        assert_eq!(child.look().refusal(&agent(me), "other"), None);
        let reused = Instance { host: "h".to_owned(), pid: me, start: 1 };
        assert_eq!(child.look().refusal(&[reused].into(), "h"), None);
    }

    #[test]
    fn s1_marks_of_an_agent_in_the_environment_are_refused() {
        let child = Sleeper::start(|c| {
            c.env("CLAUDECODE", "1");
        });
        assert!(child.look().refusal(&BTreeSet::new(), "h").unwrap().contains("CLAUDECODE"));
        assert!(child.look().refusal_to_close(&BTreeSet::new(), "h").unwrap().contains("CLAUDECODE"));
    }

    #[test]
    fn s1_who_cannot_be_checked_is_refused() {
        let gone = {
            let child = Sleeper::start(|_| {});
            child.0.id()
        };
        assert!(Peer::look(gone).refusal(&BTreeSet::new(), "h").unwrap().contains("was gone"));
    }

    /// Waits until `look` finds something.
    fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(std::time::Instant::now() < give_up, "in vain: {what}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Runs a program as the leader of a terminal's session, below a process that nobody is above any more. `script`
    /// gives it the terminal.
    struct Stray {
        script: u32,
        inside: u32,
        /// The end of what is typed would end a shell.
        _typing: std::process::ChildStdin,
    }

    impl Stray {
        fn start(program: &str) -> Self {
            // What runs behind a shell's back has no input unless it is given one.
            let line = format!(
                "exec 3<&0; script -qfc \"exec {program} 3<&-\" /dev/null <&3 >/dev/null 2>&1 & echo $!"
            );
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).env_clear().env("PATH", "/usr/bin:/bin");
            let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let typing = shell.stdin.take().unwrap();
            let output = shell.wait_with_output().unwrap();
            let script = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
            let name = program.split(' ').next().unwrap();
            let inside = until("the program in its terminal", || {
                let processes = fs::read_dir("/proc").unwrap().flatten();
                let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
                pids.find(|pid| {
                    let below = Stat::of(*pid).is_some_and(|stat| stat.parent == script && stat.tty != 0);
                    below && comm(*pid).as_deref() == Some(name)
                })
            });
            until("its adoption", || orphan(&chain(inside)).filter(|top| top.pid == script));
            Self { script, inside, _typing: typing }
        }
    }

    impl Drop for Stray {
        fn drop(&mut self) {
            for pid in [self.inside, self.script] {
                if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
    }

    #[test]
    fn s1_what_an_agent_lets_go_of_with_a_terminal_of_its_own_is_refused() {
        let older = Stray::start("sleep 601");
        let agent_process = Sleeper::start(|_| {});
        let agents = agent(agent_process.0.id());
        let stray = Stray::start("sleep 602");
        assert_ne!(Stat::of(stray.inside).unwrap().tty, 0);
        let text = Peer::look(stray.inside).refusal(&agents, "h").unwrap();
        assert!(text.contains(&format!("hangs on process {}", stray.script)), "{text}");
        // What was there before the agent is not the agent's, and without an agent it is nobody's.
        let before = agents.iter().all(|a| a.start > orphan(&chain(older.inside)).unwrap().start);
        assert!(!before || Peer::look(older.inside).refusal(&agents, "h").is_none());
        assert_eq!(Peer::look(stray.inside).refusal(&BTreeSet::new(), "h"), None);
        drop(agent_process);
        assert_eq!(Peer::look(stray.inside).refusal(&agents, "h"), None, "the agent is gone");
    }

    #[test]
    fn s1_nothing_above_the_agent_is_named_as_the_agent() {
        let me = std::process::id();
        let above = Stat::of(me).unwrap().parent;
        // An agent's hook carries its marks: the agent is the first process above them.
        let hook = Sleeper::start(|c| {
            c.env("CLAUDECODE", "1");
        });
        assert_eq!(not_its_agent(me, hook.0.id()), None);
        assert_eq!(not_its_agent(hook.0.id(), hook.0.id()), None);
        assert!(not_its_agent(above, hook.0.id()).unwrap().contains("above the agent"));
        // Without marks whatever is no shell of a person may be one.
        let plain = Sleeper::start(|_| {});
        assert_eq!(not_its_agent(me, plain.0.id()), None);
        assert_eq!(not_its_agent(plain.0.id(), me), None, "a proxy names what is below it");
    }

    #[test]
    fn s1_a_shell_in_a_terminal_is_a_persons_and_one_with_a_script_is_not() {
        let typed_into = Stray::start("bash --norc -i");
        // Until then it is the shell that starts it.
        until("a shell", || is_persons_shell(typed_into.inside).then_some(()));
        let runs = Stray::start("bash -c 'read x; read y'");
        assert!(!is_persons_shell(runs.inside));
        assert!(!is_persons_shell(typed_into.script));
        assert!(!is_persons_shell(std::process::id()));
    }

    /// A terminal program without a name that is known, a shell that somebody types into in it, and what runs there.
    struct Tab {
        terminal: Child,
        runs: u32,
    }

    impl Tab {
        fn start(shell: &str) -> Self {
            let mut terminal = Command::new("script");
            terminal.args(["-qfc", &format!("exec {shell}"), "/dev/null"]).stdin(Stdio::piped());
            terminal.stdout(Stdio::null()).stderr(Stdio::null()).env_clear().env("PATH", "/usr/bin:/bin");
            let mut terminal = terminal.spawn().unwrap();
            let keyboard = terminal.stdin.as_mut().unwrap();
            std::io::Write::write_all(keyboard, b"cat\n").unwrap();
            let top = terminal.id();
            let runs = until("what was typed runs", || {
                let processes = fs::read_dir("/proc").unwrap().flatten();
                let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
                pids.find(|pid| comm(*pid).as_deref() == Some("cat") && is_within(*pid, top))
            });
            Self { terminal, runs }
        }
    }

    impl Drop for Tab {
        fn drop(&mut self) {
            let _ = self.terminal.kill();
            let _ = self.terminal.wait();
        }
    }

    #[test]
    fn s1_nothing_above_a_shell_that_somebody_types_into_is_named_as_the_agent() {
        for shell in ["bash --norc -i", "bash --init-file /dev/null"] {
            let tab = Tab::start(shell);
            let typed_into = Stat::of(tab.runs).unwrap().parent;
            assert_eq!(not_its_agent(typed_into, tab.runs), Some("is a shell that somebody types into"));
            for above in [tab.terminal.id(), std::process::id()] {
                assert_eq!(
                    not_its_agent(above, tab.runs),
                    Some("is above a shell that somebody types into"),
                    "{shell}"
                );
            }
            // One that is believed all the same keeps nobody there from denying, and everybody from allowing.
            let believed = agent(tab.terminal.id());
            let person = Peer::look(tab.runs);
            assert!(person.refusal(&believed, "h").unwrap().contains("started by the agent"));
            assert_eq!(person.refusal_to_close(&believed, "h"), None);
            assert_eq!(person.agent_above(&believed, "h").map(|agent| agent.pid), Some(tab.terminal.id()));
            // An agent in that shell, and what it starts, gain nothing by the shell above them.
            let runs = agent(tab.runs);
            assert!(person.refusal_to_close(&runs, "h").is_some());
        }
    }

    #[test]
    fn stat_lines_with_odd_names_are_read() {
        let line = "42 (a) b (c) S 7 42 40 34816 42 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 1";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { is_dead: false, parent: 7, session: 40, tty: 34816, start: 98765 });
        assert_eq!(Stat::parse("42 (x"), None);
        assert_eq!(Stat::parse(""), None);
    }
}
