package io.tollgate;

import io.grpc.MethodDescriptor;
import io.tollgate.v1.BanRequest;
import io.tollgate.v1.GetKeyRequest;
import io.tollgate.v1.ListBansRequest;
import io.tollgate.v1.ListPoliciesRequest;
import io.tollgate.v1.Policy;
import io.tollgate.v1.RateServiceGrpc;
import io.tollgate.v1.ResetRateRequest;
import io.tollgate.v1.UnbanRequest;
import java.time.Duration;
import java.util.List;

/** Operations on keys and policies. An empty policy means the rules given in calls. */
public final class Rates {
  private final Core core;

  Rates(Core core) {
    this.core = core;
  }

  /** Clears the usage of a key; a ban stays. Returns whether the key had usage. */
  public boolean reset(String key, String policy) {
    var request = ResetRateRequest.newBuilder().setKey(key).setPolicy(policy).build();
    return call(RateServiceGrpc.getResetRateMethod(), request).getExisted();
  }

  /** Bans a key for 1 ms to 30 days, with a reason of at most 256 bytes. */
  public BanStatus ban(String key, String policy, Duration length, String reason) {
    var request =
        BanRequest.newBuilder()
            .setKey(key)
            .setPolicy(policy)
            .setDuration(Times.proto(length))
            .setReason(reason)
            .build();
    return BanStatus.of(call(RateServiceGrpc.getBanMethod(), request).getBan());
  }

  /** Lifts a ban and clears the usage of the key. Returns whether the key was banned. */
  public boolean unban(String key, String policy) {
    var request = UnbanRequest.newBuilder().setKey(key).setPolicy(policy).build();
    return call(RateServiceGrpc.getUnbanMethod(), request).getExisted();
  }

  /** Returns the usage, the ban and the strikes of a key of a policy. Counts no call. */
  public KeyStatus key(String key, String policy) {
    var request = GetKeyRequest.newBuilder().setKey(key).setPolicy(policy).build();
    return KeyStatus.of(call(RateServiceGrpc.getGetKeyMethod(), request));
  }

  /** Lists the running bans of a policy, the earliest end first; an empty token at first. */
  public Page<BanStatus> bans(String policy, String pageToken) {
    var request = ListBansRequest.newBuilder().setPolicy(policy).setPageToken(pageToken).build();
    var answer = call(RateServiceGrpc.getListBansMethod(), request);
    return new Page<>(
        answer.getBansList().stream().map(BanStatus::of).toList(), answer.getNextPageToken());
  }

  /** Returns the configured policies, by name. */
  public List<Policy> policies() {
    var request = ListPoliciesRequest.getDefaultInstance();
    return call(RateServiceGrpc.getListPoliciesMethod(), request).getPoliciesList();
  }

  /** Returns the events of a policy from now on, see {@link Watch}. */
  public Watch<RateEvent> watch(String policy) {
    return Watch.rates(core, policy, null);
  }

  /** Returns the events of a policy after a cursor; "0" begins with the oldest stored event. */
  public Watch<RateEvent> watch(String policy, String after) {
    return Watch.rates(core, policy, after);
  }

  private <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
    return Op.await(core.calls().send(method, CallPlan.SAFE, request)).answer();
  }
}
