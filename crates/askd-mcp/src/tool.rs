//! The tool that Claude Code calls, as rmcp serves it.

use std::io;
use std::sync::Arc;

use askd_client::random_hex;
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::Options;
use crate::call::{self, Subject};
use crate::calls::Calls;

/// Name of the server in Claude's configuration: the tool is `mcp__askd__ask` there.
pub const SERVER: &str = "askd";
/// Name of the tool.
pub const TOOL: &str = "ask";

/// Claude's own id of the call that this request belongs to, in `_meta`.
const TOOL_USE_ID: &str = "claudecode/toolUseId";

pub(crate) struct Permission {
    options: Arc<Options>,
    token: String,
    calls: Calls,
}

/// What the tool is called with; the input was taken out before.
#[derive(Deserialize)]
struct Arguments {
    tool_name: String,
    #[serde(default)]
    tool_use_id: Option<String>,
}

impl Permission {
    pub(crate) fn new(options: Options, calls: Calls) -> io::Result<Self> {
        let token = random_hex().map_err(io::Error::other)?;
        Ok(Self { options: Arc::new(options), token, calls })
    }
}

impl ServerHandler for Permission {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(SERVER, askd_wire::VERSION);
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == TOOL).then(tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != TOOL {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        }
        let id = context.id.clone().into_json_value().to_string();
        let (heard, input) = match self.calls.begin(&id) {
            Ok(Some(begun)) => begun,
            Ok(None) => {
                return Ok(failed("askd was not asked about a tool call: it has no input".to_owned()));
            }
            Err(error) => return Ok(failed(format!("askd cannot ask: {error}"))),
        };
        let subject = match subject(request, &context, input) {
            Ok(subject) => subject,
            Err(why) => return Ok(failed(why)),
        };
        let (sender, outcome) = oneshot::channel();
        let (options, token) = (Arc::clone(&self.options), self.token.clone());
        if let Err(error) = call::start(options, token, subject, heard, sender) {
            return Ok(failed(format!("askd cannot ask: {error}")));
        }
        Ok(match outcome.await {
            Ok(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
            Ok(Err(why)) => failed(why),
            // The call was cancelled, and nobody waits for this.
            Err(_) => failed("the call was cancelled".to_owned()),
        })
    }
}

/// What is asked about. `Err`: why it is not asked.
fn subject(
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    input: String,
) -> Result<Subject, String> {
    let arguments = request.arguments.unwrap_or_default();
    let arguments: Arguments = serde_json::from_value(arguments.into())
        .map_err(|error| format!("askd was not asked about a tool call: {error}"))?;
    let meta = context.meta.get(TOOL_USE_ID).or_else(|| request.meta.as_ref()?.get(TOOL_USE_ID));
    let of_meta = meta.and_then(|id| id.as_str()).map(str::to_owned);
    // The model sees the tool too. Its own call of it has an id of its own, and would show a person an action that
    // never runs.
    if of_meta.is_some() && of_meta != arguments.tool_use_id {
        return Err("this tool is for the agent's own permission check; calling it asks nobody".to_owned());
    }
    if matches!(arguments.tool_name.as_str(), "AskUserQuestion" | "ExitPlanMode") {
        return Err(format!(
            "{} needs a person at the agent's own prompt; here nobody can answer it, and nobody denied it",
            arguments.tool_name
        ));
    }
    Ok(Subject { tool: arguments.tool_name, input, call: arguments.tool_use_id })
}

/// No decision: Claude fails the tool call and says so, which is no denial.
fn failed(why: String) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(why)]).into()
}

fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "tool_name": {"type": "string"},
            "input": {"type": "object"},
            "tool_use_id": {"type": "string"},
        },
        "required": ["tool_name", "input"],
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(
        TOOL,
        "Asks a person whether a tool call may run. For the agent's own permission check only.",
        schema,
    )
}
