"""ServiceError -> gRPC status with google.rpc details; every one carries ErrorInfo."""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2, duration_pb2, message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from service.errors import Code, ServiceError

DOMAIN = "syntaxd"


def to_proto(error: ServiceError) -> status_pb2.Status:
    """google.rpc.Status with ErrorInfo and whichever of the other details apply."""
    details: list[message.Message] = [
        error_details_pb2.ErrorInfo(
            reason=error.reason, domain=DOMAIN, metadata=dict(error.metadata)
        )
    ]
    if error.violations and error.code is Code.INVALID_ARGUMENT:
        details.append(
            error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(
                        field=violation.field, description=violation.description
                    )
                    for violation in error.violations
                ]
            )
        )
    if error.quota:
        details.append(
            error_details_pb2.QuotaFailure(
                violations=[
                    error_details_pb2.QuotaFailure.Violation(
                        subject=error.quota, description=error.message
                    )
                ]
            )
        )
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1_000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return status_pb2.Status(
        code=int(error.code), message=error.message, details=[_packed(each) for each in details]
    )


def to_grpc(error: ServiceError) -> grpc.Status:
    """What ``context.abort_with_status`` takes."""
    result: grpc.Status = rpc_status.to_status(to_proto(error))
    return result


def _packed(detail: message.Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
