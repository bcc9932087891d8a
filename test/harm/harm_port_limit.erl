%% SPDX-License-Identifier: Apache-2.0
-module(harm_port_limit).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/emqx/emqx/issues/534", args => ["+Q", "1024"], refusal => "too many ports|port (limit|table)|ports", remedy => "\\+Q|limit|close",
      log => "system_limit|^$", condition => "one more port, and the node has as many as +Q allows"}.

setup() ->
    Ports = fill([]),
    port_close(hd(Ports)),
    {Ports, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

fill(Ports) ->
    try fill([open_port({spawn_driver, "ram_file_drv"}, []) | Ports])
    catch error:system_limit -> Ports
    end.

truth({Ports, Pinger}) -> [{open, length([P || P <- Ports, erlang:port_info(P) =/= undefined])} | harm:pings(Pinger)].
