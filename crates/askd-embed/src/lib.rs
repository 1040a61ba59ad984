//! askd inside a host, without a daemon: core, writer and journal on a thread of the host's process. It opens no socket
//! and starts no runtime, and it never decides an ask by itself.
