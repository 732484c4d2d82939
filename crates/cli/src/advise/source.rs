//! Fetches responses to queries from a Prometheus server, directly or through the API server, or from files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use headroom_domain::resource::Resource;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;

use super::{
    error::AdviceError,
    external_labels::check_clusters,
    query::{Expressions, Query},
    series::{self, Series},
    span::{FRAME_S, Span},
};
use crate::cause::innermost;

/// Seconds between two checks of the clusters. A part of the history, usually a day, has several.
const CLUSTERS_EVERY_S: u64 = 6 * 3600;
/// Characters of an unusable response that an error contains.
const SHOWN: usize = 200;

pub enum Source {
    Server(Box<Server>),
    Saved(PathBuf),
}

pub struct Server {
    /// HTTP client with the credentials.
    pub client: Client,
    pub prefix: String,
    /// Headers of each request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub expressions: Expressions,
    /// Seconds between two samples of a node.
    pub step_s: u64,
    /// Directory to save responses in.
    pub save: Option<PathBuf>,
}

/// Error of the API server if it does not forward a request.
#[derive(Debug, Deserialize)]
struct Refusal {
    kind: String,
    message: String,
}

impl Source {
    /// Expressions or files of a query, for messages.
    pub fn asked(&self, query: &Query) -> String {
        match self {
            Self::Server(server) => server.expressions.expressions(query).join(" and "),
            Self::Saved(directory) => format!("{}/{query}*.json", directory.display()),
        }
    }
}

impl Server {
    /// Response to a query for one time range, from the first expression that has series.
    ///
    /// # Errors
    /// The request fails or is refused, or the response cannot be parsed or saved.
    pub async fn answer(&self, query: &'static Query, span: &Span) -> Result<Vec<Series>, AdviceError> {
        let (mut bytes, mut series) = (Vec::new(), Vec::new());
        let step_s = if query.is_fine() { self.step_s } else { FRAME_S };
        for expression in self.expressions.expressions(query) {
            bytes = self.ask(query.name, expression, span, step_s).await?;
            series = series::read(query.name, query.resource, &bytes)?;
            if !series.is_empty() {
                break;
            }
        }
        if let Some(directory) = &self.save {
            let path = directory.join(format!("{query}-{}.json", span.start_s()));
            fs::write(&path, &bytes).map_err(|source| AdviceError::Write { path, source })?;
        }
        Ok(series)
    }

    /// Checks that the series of each node are those of one cluster, at a few times of the range.
    ///
    /// # Errors
    /// The request fails or is refused, or a node is in several clusters.
    pub async fn check_clusters(&self, span: &Span) -> Result<(), AdviceError> {
        let Some(expression) = self.expressions.node_series() else {
            return Ok(());
        };
        let name = "node-cpu-capacity";
        let bytes = self.ask(name, &expression, span, CLUSTERS_EVERY_S).await?;
        check_clusters(&series::read(name, Resource::Cpu, &bytes)?)
    }

    async fn ask(
        &self,
        name: &str,
        expression: &str,
        span: &Span,
        step_s: u64,
    ) -> Result<Vec<u8>, AdviceError> {
        let parameters = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .append_pair("start", &(span.start_s() + step_s).to_string())
            .append_pair("end", &span.end_s().to_string())
            .append_pair("step", &step_s.to_string())
            .finish();
        let path = format!("{}/api/v1/query_range?{parameters}", self.prefix);
        let cannot = |reason: String| AdviceError::Ask {
            query: name.to_owned(),
            reason,
        };
        let mut request = Request::get(path)
            .body(Body::empty())
            .map_err(|error| cannot(error.to_string()))?;
        request.headers_mut().extend(self.headers.iter().cloned());
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| cannot(innermost(&error).to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let bytes = body
            .map_err(|error| cannot(innermost(&error).to_string()))?
            .to_bytes();
        // Prometheus returns its own errors as 400, 422 and 503, in the form of its API.
        let is_prometheus = status.is_success()
            || matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::SERVICE_UNAVAILABLE
            ) && bytes.starts_with(b"{\"status\":\"error\"");
        if is_prometheus {
            Ok(bytes.to_vec())
        } else {
            Err(response_error(name, status, &bytes))
        }
    }
}

/// Error for an unusable response: of the API server if it refuses or cannot forward the request, else of the server.
fn response_error(query: &str, status: StatusCode, bytes: &[u8]) -> AdviceError {
    let query = query.to_owned();
    match serde_json::from_slice(bytes) {
        Ok(Refusal { kind, message }) if kind == "Status" => AdviceError::ApiServer {
            query,
            status,
            message,
        },
        Ok(_) | Err(_) => AdviceError::Status {
            query,
            status,
            text: String::from_utf8_lossy(bytes)
                .trim()
                .chars()
                .take(SHOWN)
                .collect(),
        },
    }
}

/// Saved responses to a query in a directory: the files `NAME.json` and `NAME-*.json`, by name.
///
/// # Errors
/// No file exists, or one is unreadable.
pub fn saved(directory: &Path, query: &'static Query) -> Result<Vec<Series>, AdviceError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| AdviceError::Read { path, source }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
        let path = entry.map_err(unreadable(directory))?.path();
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        if is_json && belongs_to(name, query) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(AdviceError::NotSaved {
            path: directory.to_owned(),
            query: query.name,
        });
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(unreadable(&path))?;
        all.extend(series::read(&path.display().to_string(), query.resource, &bytes)?);
    }
    Ok(all)
}

/// True if a file stem belongs to `query`: its name, or its name, a hyphen and digits. Some names of queries are
/// prefixes of
/// others.
fn belongs_to(stem: &str, query: &Query) -> bool {
    stem.strip_prefix(query.name).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('-')
                .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::query::QUERIES;

    const EMPTY: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
    const ONE: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[60,"1"]]}]}}"#;

    fn query(name: &str) -> &'static Query {
        QUERIES.iter().find(|query| query.name == name).unwrap()
    }

    #[test]
    fn an_error_response_names_the_server_that_refused() {
        let error = |bytes: &[u8]| response_error("node-cpu", StatusCode::FORBIDDEN, bytes).to_string();
        assert_eq!(
            error(br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"services \"p\" is forbidden","code":403}"#),
            "node-cpu: the API server returned 403 Forbidden: services \"p\" is forbidden"
        );
        assert_eq!(
            error(b" who are you? \n"),
            "node-cpu: the server returned 403 Forbidden: who are you?"
        );
        assert_eq!(
            error(br#"{"kind":"Other","message":"no"}"#),
            "node-cpu: the server returned 403 Forbidden: {\"kind\":\"Other\",\"message\":\"no\"}"
        );
    }

    #[test]
    fn saved_answers_are_found_by_the_querys_whole_name() {
        let directory = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("node-cpu.json", ONE),
            ("node-cpu-86400.json", ONE),
            ("node-cpu-capacity.json", EMPTY),
            ("node-cpu.txt", "not read"),
        ] {
            fs::write(directory.path().join(file), content).unwrap();
        }
        assert_eq!(saved(directory.path(), query("node-cpu")).unwrap().len(), 2);
        assert_eq!(
            saved(directory.path(), query("node-cpu-capacity")).unwrap().len(),
            0
        );
        let missing = saved(directory.path(), query("pod-cpu")).unwrap_err().to_string();
        assert!(
            missing.ends_with("no file pod-cpu.json or pod-cpu-*.json"),
            "{missing}"
        );
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("node-cpu.json"), &ONE[..40]).unwrap();
        let error = saved(directory.path(), query("node-cpu"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("node-cpu.json: not a response"), "{error}");
    }
}
