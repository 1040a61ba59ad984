//! What stands between the agent, its host and people.

use serde_json::Value;

use crate::dice::Dice;

/// One broker; it lives through all lives of the agent.
pub(super) trait Broker {
    /// A new agent process, and a host that answers.
    /// `resumes`: the agent goes on with a turn by itself.
    fn begin(&mut self, life: u32, resumes: bool);
    fn agent_line(&mut self, line: &Value);
    fn host_line(&mut self, line: &Value);
    fn host_closed(&mut self);
    /// The agent's process ended; lost: it was killed, and will be resumed.
    fn agent_ended(&mut self, lost: bool);
    /// A line that was written to the agent; and to the host.
    fn to_agent(&mut self) -> Option<Value>;
    fn to_host(&mut self) -> Option<Value>;
    /// The tool-use ids of what people can answer now.
    fn open(&self) -> Vec<String>;
    /// A person answers; true: it counts, they are told. `stop`: a denial that stops the thread that asks.
    fn person(&mut self, call: &str, allow: bool, stop: bool) -> bool;
    /// Something that is under way arrives.
    fn work(&mut self, dice: &mut Dice);
    fn pass(&mut self, ms: u64);
    /// What keeps asks dies, or comes back.
    fn die_or_come(&mut self);
    /// It dies, if it is there.
    fn go_away(&mut self);
    fn come_back(&mut self);
    /// It will take none of what is raised from here on, until that is over; false: it always takes all.
    fn refuses(&mut self, refuses: bool) -> bool;
    /// The agent's input was closed: what it asks from here on is denied by the agent itself.
    fn closed(&self) -> bool;
    /// Records in memory.
    fn held(&self) -> usize;
}
