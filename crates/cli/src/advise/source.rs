//! Fetches the answers to queries from a Prometheus server, directly or through the API server, or from files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;

use super::{
    error::AdviceError,
    query::{Expressions, Query},
    series::{self, Series},
    span::{FRAME_S, Span},
};
use crate::cause::innermost;

/// Most that is shown of an answer that cannot be used.
const SHOWN: usize = 200;

/// Source of answers.
pub enum Source {
    /// A server that is asked.
    Server(Server),
    /// Answers as they were saved.
    Saved(PathBuf),
}

/// A Prometheus server.
pub struct Server {
    /// Sends requests to it, credentials included.
    pub client: Client,
    /// What comes before `/api/v1` in its paths.
    pub prefix: String,
    /// Its expressions.
    pub expressions: Expressions,
    /// Seconds between two samples of a node.
    pub step_s: u64,
    /// Where its answers are saved too.
    pub save: Option<PathBuf>,
}

/// What the API server says where it does not pass a request on.
#[derive(Debug, Deserialize)]
struct Refusal {
    kind: String,
    message: String,
}

impl Source {
    /// What is asked for a query: its expressions, or its files.
    pub fn asked(&self, query: &Query) -> String {
        match self {
            Self::Server(server) => {
                let expressions: Vec<&str> = server.expressions.expressions(query).collect();
                expressions.join(" and ")
            }
            Self::Saved(directory) => format!("{}/{query}*.json", directory.display()),
        }
    }
}

impl Server {
    /// The answer to one query over one stretch: to the first of its expressions that has series.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses; the answer cannot be read or saved.
    pub async fn answer(&self, query: &'static Query, span: &Span) -> Result<Vec<Series>, AdviceError> {
        let (mut bytes, mut series) = (Vec::new(), Vec::new());
        for expression in self.expressions.expressions(query) {
            bytes = self.ask(query, expression, span).await?;
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

    async fn ask(&self, query: &Query, expression: &str, span: &Span) -> Result<Vec<u8>, AdviceError> {
        let step_s = if query.is_fine() { self.step_s } else { FRAME_S };
        let parameters = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .append_pair("start", &(span.start_s() + step_s).to_string())
            .append_pair("end", &span.end_s().to_string())
            .append_pair("step", &step_s.to_string())
            .finish();
        let path = format!("{}/api/v1/query_range?{parameters}", self.prefix);
        let cannot = |reason: String| AdviceError::Ask {
            query: query.name.to_owned(),
            reason,
        };
        let request = Request::get(path)
            .body(Body::empty())
            .map_err(|error| cannot(error.to_string()))?;
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
        // Prometheus itself says with 400, 422 and 503 what is wrong, in the form of its API.
        let is_prometheus = status.is_success()
            || matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::SERVICE_UNAVAILABLE
            ) && bytes.starts_with(b"{\"status\":\"error\"");
        if is_prometheus {
            Ok(bytes.to_vec())
        } else {
            Err(useless(query, status, &bytes))
        }
    }
}

/// The error that an answer without a result is: the API server's own where it refuses or cannot pass the request on.
fn useless(query: &Query, status: StatusCode, bytes: &[u8]) -> AdviceError {
    let query = query.name.to_owned();
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

/// All answers to a query in a directory: the files `NAME.json` and `NAME-*.json`, by name.
///
/// # Errors
/// None is there, or one cannot be read.
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
        if is_json && is_of(name, query) {
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

/// True if a file of that stem holds an answer to `query`: its name, or its name, a hyphen and digits. Names of queries
/// begin with one another.
fn is_of(stem: &str, query: &Query) -> bool {
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
    fn an_answer_without_a_result_says_who_refuses() {
        let error = |bytes: &[u8]| useless(query("node-cpu"), StatusCode::FORBIDDEN, bytes).to_string();
        assert_eq!(
            error(br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"services \"p\" is forbidden","code":403}"#),
            "node-cpu: the API server answers 403 Forbidden: services \"p\" is forbidden"
        );
        assert_eq!(
            error(b" who are you? \n"),
            "node-cpu: the server answers 403 Forbidden: who are you?"
        );
        assert_eq!(
            error(br#"{"kind":"Other","message":"no"}"#),
            "node-cpu: the server answers 403 Forbidden: {\"kind\":\"Other\",\"message\":\"no\"}"
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
        assert!(error.contains("node-cpu.json: not an answer"), "{error}");
    }
}
