//! Admission: answers the AdmissionReviews of the API server. Nothing here waits for the network.
//!
//! ```text
//! router -> review -> endpoint -> steps over a draft -> patch -> review
//!                                    └── read `store::cluster`
//! ```

pub mod annotation_permissions;
pub mod callers;
pub mod draft;
pub mod endpoint;
pub mod endpoints;
pub mod error;
pub mod features;
pub mod metrics;
pub mod patch;
pub mod refusal;
pub mod review;
pub mod router;
pub mod self_call;
pub mod shadow;
