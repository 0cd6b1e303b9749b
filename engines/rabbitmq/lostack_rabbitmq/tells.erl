%% Tells lostack of a node, one question a connection: of a queue, which messages wait; of none,
%% whether it serves.
spawn(fun() ->
  {ok, L} = gen_tcp:listen(PORT, [binary, {packet, line}, {active, false}, {reuseaddr, true},
                                  {ip, {127, 0, 0, 1}}]),
  Place = fun([I | _]) -> I end,
  Holds = fun(S) ->
    {[Place(M) || E <- [5, 3], M <- lqueue:to_list(element(E, S))],
     [Place(M) || C <- maps:values(element(10, S)), M <- maps:values(element(5, C))]}
  end,
  Told = fun
    (<<>>) ->
      Others = [element(1, T) || T <- ets:tab2list(ra_state), element(2, T) =/= leader],
      [ra:trigger_election({N, node()}) || N <- Others],
      {ready, rabbit:is_running(), length(Others)};
    (<<"!written">>) ->
      #{names := #{directory_rev := Names}} = ra_system:fetch(quorum_queues),
      dets:sync(Names);
    (Name) ->
      case rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, Name)) of
        {error, not_found} -> none;
        {ok, Q} ->
          case amqqueue:get_type(Q) of
            rabbit_quorum_queue ->
              {Server, _} = Id = amqqueue:get_pid(Q),
              {ok, {_, Found}, _} = ra:local_query(Id, Holds),
              {queue, ra_directory:uid_of(quorum_queues, Server), Found};
            Other -> {other, Other}
          end
      end
  end,
  Serve = fun Next() ->
    {ok, S} = gen_tcp:accept(L),
    Answer = try
      {ok, Line} = gen_tcp:recv(S, 0, 5000),
      Told(string:trim(Line))
    catch _:Why -> {failed, iolist_to_binary(io_lib:format("~0p", [Why]))} end,
    gen_tcp:send(S, term_to_binary(Answer)),
    gen_tcp:close(S),
    Next()
  end,
  Serve()
end).
