//! Asks the API server whether the user may do something, by a SelfSubjectAccessReview.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::error::Error;

/// True if the user has this permission.
///
/// # Errors
/// The API server does not answer.
pub(crate) async fn is_allowed(client: &Client, permission: ResourceAttributes) -> Result<bool, Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(permission),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|source| Error::Cluster {
        attempt: "review the user's permissions",
        reason: Box::new(source),
    })?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
