//! Decodes AdmissionReviews from bytes and encodes the answers; objects stay the bytes of the request.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use headroom_domain::{field::Cause, names::KubeletIdentity};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    admission::{
        draft::{Fields as _, Notes, Tree},
        error::AdmissionError,
        refusal::{DenialStyle, Refusal},
    },
    store::caller::ReviewCaller,
};

const KIND: &str = "AdmissionReview";
/// Longest member of a review besides the objects: user, options and others. Go's HTTP server reads headers of up to 1 MiB.
pub const LONGEST_HEAD: usize = 1 << 20;

/// The versions of AdmissionReview that are read; the answer has the version of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V1beta1,
}

/// Operation on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    /// A change of a stored object.
    Update,
    Delete,
    /// A connection to a subresource such as `exec`.
    Connect,
}

/// A question of the API server.
#[derive(Debug)]
pub struct Review<'a> {
    /// The version it is asked in.
    pub version: Version,
    pub request: Request,
    /// The object to be stored; there on CREATE and UPDATE.
    pub object: Option<Tree<'a>>,
    /// The stored object; there on UPDATE.
    pub old_object: Option<Tree<'a>>,
}

/// User, operation and object of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Names the question; the answer repeats it.
    pub uid: String,
    pub operation: Operation,
    /// Kind of the object that the endpoint reads; empty if the review contains none.
    pub kind: String,
    /// API group of the resource, empty for the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    /// The subresource, empty if none.
    pub sub_resource: String,
    /// Namespace of the object, empty if it has none.
    pub namespace: String,
    /// Name of the object, empty if the API server is to make one up.
    pub name: String,
    /// User of the request.
    pub user: User,
    /// Client that posted the review; no part of the review, which every client can write.
    pub caller: ReviewCaller,
    /// True if nothing will be stored.
    pub is_dry_run: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    /// Kubelet that the user is; `None` for other users.
    pub fn kubelet(&self) -> Option<KubeletIdentity<'_>> {
        KubeletIdentity::of_user(&self.name, &self.groups)
    }
}

#[derive(Debug)]
pub enum ReviewVerdict<'v> {
    /// The request may go on with this patch, empty for unchanged.
    Allowed(&'v json_patch::Patch),
    Denied(&'v Refusal),
}

impl Version {
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Operation {
    /// Kubernetes' word for it, also used as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Levels of a review that are opened while it is read: the review, `request`, the objects and their `metadata`,
/// `spec` and `status`.
const OPENED: u32 = 4;

/// Reads a review.
///
/// # Errors
/// If the body is not an AdmissionReview, or one without what its operation needs: all are client errors.
pub fn decode(body: &[u8]) -> Result<Review<'_>, AdmissionError> {
    let text = std::str::from_utf8(body).map_err(AdmissionError::NotText)?;
    let mut review = Tree::parse(text, OPENED).map_err(AdmissionError::NotJson)?;
    let head = head(&review);
    if let Some(field) = review.too_wide() {
        let field = if field.is_empty() {
            "the review".to_owned()
        } else {
            field
        };
        return Err(AdmissionError::TooWide { field });
    }
    let (version, request) = head?;
    let mut objects = review.remove("request");
    let mut object = |name| objects.as_mut().and_then(|request| request.remove(name));
    let (object, old_object) = (object("object"), object("oldObject"));
    let is_missing = match request.operation {
        _ if request.uid.is_empty() => Some("request.uid"),
        Operation::Create | Operation::Update if object.is_none() => Some("request.object"),
        Operation::Update if old_object.is_none() => Some("request.oldObject"),
        Operation::Create | Operation::Update | Operation::Delete | Operation::Connect => None,
    };
    is_missing.map_or(Ok(()), |field| Err(AdmissionError::Missing { field }))?;
    for (field, object) in [("request.object", &object), ("request.oldObject", &old_object)] {
        if object.as_ref().is_some_and(|object| !object.is_object()) {
            return Err(AdmissionError::NotAnObject { field });
        }
    }
    Ok(Review {
        version,
        request,
        object,
        old_object,
    })
}

/// Everything of a review but the objects.
fn head(review: &Tree<'_>) -> Result<(Version, Request), AdmissionError> {
    let (api_version, kind): (String, String) = (field(review, &["apiVersion"])?, field(review, &["kind"])?);
    let version = [Version::V1, Version::V1beta1]
        .into_iter()
        .find(|version| version.name() == api_version);
    let Some(version) = version.filter(|_| kind == KIND) else {
        return Err(AdmissionError::Version {
            kind: shortened(&kind),
            api_version: shortened(&api_version),
        });
    };
    if review.get(&["request"]).is_none_or(Tree::is_null) {
        return Err(AdmissionError::Missing { field: "request" });
    }
    Ok((version, request(review)?))
}

/// Parses the request of a review.
fn request(review: &Tree<'_>) -> Result<Request, AdmissionError> {
    let text = |path: &[&str]| field::<String>(review, path);
    let operation = optional(review, &["request", "operation"])?;
    Ok(Request {
        uid: text(&["request", "uid"])?,
        operation: operation.ok_or(AdmissionError::Missing {
            field: "request.operation",
        })?,
        kind: text(&["request", "kind", "kind"])?,
        group: text(&["request", "resource", "group"])?,
        version: text(&["request", "resource", "version"])?,
        resource: text(&["request", "resource", "resource"])?,
        sub_resource: text(&["request", "subResource"])?,
        namespace: text(&["request", "namespace"])?,
        name: text(&["request", "name"])?,
        user: User {
            name: text(&["request", "userInfo", "username"])?,
            groups: field(review, &["request", "userInfo", "groups"])?,
        },
        caller: ReviewCaller::default(),
        is_dry_run: field(review, &["request", "dryRun"])?,
    })
}

/// A part of a review; the empty one if it is absent.
fn field<T: DeserializeOwned + Default>(review: &Tree<'_>, path: &[&str]) -> Result<T, AdmissionError> {
    optional(review, path).map(Option::unwrap_or_default)
}

/// A part of a review; `None` if it is absent. A long one is not read: its text would be copied, also into the error.
fn optional<T: DeserializeOwned>(review: &Tree<'_>, path: &[&str]) -> Result<Option<T>, AdmissionError> {
    let field = || path.join(".");
    if review.get(path).is_some_and(|part| part.length() > LONGEST_HEAD) {
        return Err(AdmissionError::TooLong {
            field: field(),
            limit: LONGEST_HEAD,
        });
    }
    review.read(path).map_err(|source| AdmissionError::Field {
        field: field(),
        source,
    })
}

/// Maximum number of characters of a client's text in messages and logs.
pub const LONGEST: usize = 80;

/// Start of a client's text, short enough for messages and logs.
pub fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a> {
    kind: &'static str,
    api_version: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ResponseStatus<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "is_empty")]
    audit_annotations: &'a BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ResponseStatus<'a> {
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails<'a>>,
}

/// The fields that are wrong, of which object.
#[derive(Serialize)]
struct StatusDetails<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    causes: Vec<Cause>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn is_empty(map: &&BTreeMap<&'static str, String>) -> bool {
    map.is_empty()
}

/// Room for an answer without its patch, in bytes: with the usual notes it does not move.
const USUAL_ANSWER: usize = 512;

/// Writes the answer to a review: JSON with `uid` and version of the question.
///
/// # Errors
/// If the patch cannot be written as JSON.
pub fn encode(
    version: Version,
    request: &Request,
    verdict: &ReviewVerdict<'_>,
    notes: &Notes,
) -> Result<Vec<u8>, AdmissionError> {
    let (status, patch) = match verdict {
        ReviewVerdict::Allowed(patch) if patch.0.is_empty() => (None, None),
        ReviewVerdict::Allowed(patch) => (None, Some(in_base64(&json(patch, USUAL_ANSWER)?)?)),
        ReviewVerdict::Denied(refusal) => {
            let DenialStyle { code, reason } = refusal.style();
            let status = ResponseStatus {
                code: code.as_u16(),
                reason,
                message: refusal.to_string(),
                details: details(request, refusal),
            };
            (Some(status), None)
        }
    };
    let answer = ReviewResponse {
        kind: KIND,
        api_version: version.name(),
        response: Response {
            uid: &request.uid,
            allowed: status.is_none(),
            status,
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch,
            audit_annotations: &notes.audit,
            warnings: &notes.warnings,
        },
    };
    let patch = answer
        .response
        .patch
        .as_ref()
        .map_or(0, |patch| patch.get().len());
    json(&answer, USUAL_ANSWER + patch)
}

/// Bytes as text in base64. Nothing in it has to be escaped, so the text is JSON as it is.
fn in_base64(bytes: &[u8]) -> Result<Box<RawValue>, AdmissionError> {
    let mut quoted = String::with_capacity(bytes.len().div_ceil(3) * 4 + 2);
    quoted.push('"');
    BASE64_STANDARD.encode_string(bytes, &mut quoted);
    quoted.push('"');
    RawValue::from_string(quoted).map_err(AdmissionError::Encode)
}

/// The JSON of a value that is expected to have about that many bytes.
fn json(value: &impl Serialize, length: usize) -> Result<Vec<u8>, AdmissionError> {
    let mut text = Vec::with_capacity(length);
    serde_json::to_writer(&mut text, value).map_err(AdmissionError::Encode)?;
    Ok(text)
}

/// The details of a refusal that names fields.
fn details<'a>(request: &'a Request, refusal: &Refusal) -> Option<StatusDetails<'a>> {
    let causes = refusal.causes();
    (!causes.is_empty()).then(|| StatusDetails {
        name: &request.name,
        group: &request.group,
        kind: &request.kind,
        causes,
    })
}

#[cfg(test)]
mod tests {
    use headroom_domain::field;
    use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
    use k8s_openapi::ByteString;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::refusal::Denial;

    fn question() -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u-1",
                "kind": {"group": "", "version": "v1", "kind": "Node"},
                "resource": {"group": "", "version": "v1", "resource": "nodes"},
                "subResource": "status",
                "name": "n1",
                "operation": "UPDATE",
                "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"], "extra": {"a": ["b"]}},
                "object": {"metadata": {"name": "n1"}},
                "oldObject": {"metadata": {"name": "n1"}},
                "dryRun": false,
                "options": {"kind": "PatchOptions"},
            },
        })
    }

    fn asked() -> Request {
        decode(question().to_string().as_bytes()).unwrap().request
    }

    #[test]
    fn a_review_is_read_with_who_does_what() {
        let body = question().to_string();
        let review = decode(body.as_bytes()).unwrap();
        assert_eq!(review.version, Version::V1);
        assert_eq!(
            review.request,
            Request {
                uid: "u-1".to_owned(),
                operation: Operation::Update,
                kind: "Node".to_owned(),
                group: String::new(),
                version: "v1".to_owned(),
                resource: "nodes".to_owned(),
                sub_resource: "status".to_owned(),
                namespace: String::new(),
                name: "n1".to_owned(),
                user: User {
                    name: "system:node:n1".to_owned(),
                    groups: vec!["system:nodes".to_owned()]
                },
                caller: ReviewCaller::Unverified,
                is_dry_run: false,
            }
        );
        assert!(review.object.is_some() && review.old_object.is_some());
    }

    #[test]
    fn v1beta1_is_answered_in_v1beta1() {
        let mut question = question();
        question["apiVersion"] = "admission.k8s.io/v1beta1".into();
        let body = question.to_string();
        let review = decode(body.as_bytes()).unwrap();
        let answer = encode(
            review.version,
            &asked(),
            &ReviewVerdict::Allowed(&Patch(vec![])),
            &Notes::default(),
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(answer).unwrap(),
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"uid":"u-1","allowed":true}}"#
        );
    }

    #[rstest]
    #[case::no_version("/apiVersion", json!(null), "\"AdmissionReview\" of \"\" is not")]
    #[case::other_version("/apiVersion", json!("foo/v9"), r#""AdmissionReview" of "foo/v9" is not"#)]
    #[case::other_kind("/kind", json!("Node"), r#""Node" of "admission.k8s.io/v1" is not"#)]
    #[case::no_request("/request", json!(null), "request is missing")]
    #[case::request_is_a_list("/request", json!([1]), "request.operation is missing")]
    #[case::uid_is_a_number("/request/uid", json!(7), "request.uid cannot be read: invalid type")]
    #[case::no_uid("/request/uid", json!(""), "request.uid is missing")]
    #[case::no_object("/request/object", json!(null), "request.object is missing")]
    #[case::no_old_object("/request/oldObject", json!(null), "request.oldObject is missing")]
    #[case::long_text("/request/dryRun", json!("x".repeat(LONGEST_HEAD)), "request.dryRun is longer than 1048576 bytes")]
    #[case::unknown_operation("/request/operation", json!("PATCH"), "unknown variant `PATCH`")]
    fn a_wrong_part_is_named(#[case] part: &str, #[case] value: Value, #[case] reason: &str) {
        let mut question = question();
        *question.pointer_mut(part).unwrap() = value;
        let error = decode(question.to_string().as_bytes()).unwrap_err();
        assert!(error.reason().to_string().contains(reason), "{}", error.reason());
        assert_eq!(error.answer().0, 400);
    }

    #[rstest]
    #[case::empty(b"".as_slice())]
    #[case::null(b"null")]
    #[case::half(br#"{"kind":"AdmissionReview","#)]
    #[case::trailing(br#"{"kind":"AdmissionReview"} x"#)]
    #[case::yaml(b"kind: AdmissionReview")]
    #[case::byte_order_mark(b"\xef\xbb\xbf{}")]
    #[case::not_utf8(b"{\"kind\":\"\xff\"}")]
    #[case::compressed(b"\x1f\x8b\x08\x00")]
    fn a_body_that_is_no_review_is_a_client_error(#[case] body: &[u8]) {
        assert_eq!(decode(body).unwrap_err().answer().0, 400);
    }

    #[rstest]
    #[case::whole_body("[", 1_000_000)]
    #[case::objects(r#"{"a":"#, 200_000)]
    #[case::in_object(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":{"status":{"x":[[[["#, 1)]
    fn a_body_of_brackets_is_a_client_error_and_no_stack_overflow(#[case] start: &str, #[case] times: usize) {
        let body = start.repeat(times) + &"[".repeat(100_000);
        assert_eq!(decode(body.as_bytes()).unwrap_err().answer().0, 400);
    }

    #[rstest]
    #[case::members(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"#,
        r#""":0,"#,
        r#""":0}}"#,
        "request contains more than 16384 values"
    )]
    #[case::elements(
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"UPDATE","userInfo":{"groups":["#,
        r#""a","#,
        r#""a"]}}}"#,
        "request.userInfo.groups contains more than 16384 values"
    )]
    #[case::whole("{", r#""":0,"#, r#""":0}"#, "the review contains more than 16384 values")]
    fn what_is_too_wide_is_named(
        #[case] start: &str,
        #[case] one: &str,
        #[case] end: &str,
        #[case] reason: &str,
    ) {
        let body = format!("{start}{}{end}", one.repeat(20_000));
        let error = decode(body.as_bytes()).unwrap_err();
        assert_eq!(
            (error.reason().to_string().as_str(), error.answer().0.as_u16()),
            (reason, 400)
        );
    }

    #[test]
    fn deep_nesting_inside_an_object_is_named() {
        let mut text = question().to_string();
        let bomb = format!(
            r#"{{"status":{{"x":{}{}}}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        text = text.replacen(r#"{"metadata":{"name":"n1"}}"#, &bomb, 1);
        let error = decode(text.as_bytes()).unwrap_err();
        assert!(
            error
                .reason()
                .to_string()
                .contains("nested deeper than 127 levels"),
            "{}",
            error.reason()
        );
    }

    #[test]
    fn a_patch_travels_in_base64_with_its_type() {
        let patch = Patch(vec![PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["metadata", "annotations", "a/b"]),
            value: "1".into(),
        })]);
        let notes = Notes {
            warnings: vec!["careful".to_owned()],
            audit: BTreeMap::from([("decision", "raised".to_owned())]),
        };
        let answer = encode(Version::V1, &asked(), &ReviewVerdict::Allowed(&patch), &notes).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let ByteString(bytes) = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        assert_eq!(serde_json::from_slice::<Patch>(&bytes).unwrap(), patch);
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        assert_eq!(answer["response"]["warnings"], json!(["careful"]));
        assert_eq!(
            answer["response"]["auditAnnotations"],
            json!({"decision": "raised"})
        );
    }

    #[test]
    fn a_denial_is_a_403_with_its_message_and_no_patch() {
        let refusal = Refusal::from(Denial::Value {
            field: "spec.x".to_owned(),
            value: "7".to_owned(),
            reason: "is odd".to_owned(),
        });
        let answer = encode(
            Version::V1,
            &asked(),
            &ReviewVerdict::Denied(&refusal),
            &Notes::default(),
        )
        .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&answer).unwrap()["response"],
            json!({
                "uid": "u-1",
                "allowed": false,
                "status": {"code": 403, "reason": "Forbidden", "message": r#"spec.x: invalid value "7": is odd"#},
            })
        );
    }

    #[test]
    fn a_denial_of_fields_has_a_cause_for_each_in_its_details() {
        let mut errors = field::Errors::default();
        errors.push(field::Error::invalid(
            &field::Path::new("spec").child("x"),
            "7",
            "is odd",
        ));
        errors.push(field::Error::forbidden(&field::Path::new("spec").child("y"), ""));
        let mut refusal = Refusal::new(DenialStyle::INVALID);
        refusal.push(Denial::Fields(errors));
        let notes = Notes {
            warnings: vec!["z is old".to_owned()],
            ..Notes::default()
        };
        let answer = encode(Version::V1, &asked(), &ReviewVerdict::Denied(&refusal), &notes).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            answer["response"]["warnings"],
            json!(["z is old"]),
            "also where it is refused"
        );
        assert_eq!(
            answer["response"]["status"],
            json!({
                "code": 422,
                "reason": "Invalid",
                "message": r#"[spec.x: Invalid value: "7": is odd, spec.y: Forbidden]"#,
                "details": {
                    "name": "n1",
                    "kind": "Node",
                    "causes": [
                        {"reason": "FieldValueInvalid", "message": r#"Invalid value: "7": is odd"#, "field": "spec.x"},
                        {"reason": "FieldValueForbidden", "message": "Forbidden", "field": "spec.y"},
                    ],
                },
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(&body).unwrap_err().answer().0, 400);
        }

        #[test]
        fn a_review_cut_or_changed_anywhere_never_panics(at in 0_usize..600, byte in any::<u8>(), cuts in any::<bool>()) {
            let mut body = question().to_string().into_bytes();
            let at = at % body.len();
            if cuts { body.truncate(at) } else { body[at] = byte }
            match decode(&body) {
                Ok(review) => prop_assert!(!review.request.uid.is_empty()),
                Err(error) => prop_assert_eq!(error.answer().0, 400),
            }
        }
    }
}
