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
  Lines = fun Split(<<I:64, T:64, N:32, E:N/binary, Rest/binary>>) ->
               [{I, T, binary_to_term(E)} | Split(Rest)];
             Split(<<>>) -> []
          end,
  %% what a handler of dead letters would be given: {Reason, Index}
  Died = fun(Effects, Said) ->
    [{Why, I} || {log, Is, F} <- lists:flatten([Effects]),
                 {mod_call, lostack, _, [Why, _]} <- F([maps:get(I, Said) || I <- Is]), I <- Is]
  end,
  Handler = #{dead_letter_handler => {at_most_once, {lostack, dropped, []}}},
  Replay = fun(File, Log) ->
    %% file:consult/1 reads UTF-8, and Ra writes its folder's name in Latin-1
    {ok, Text} = file:read_file(File),
    {ok, Words, _} = erl_scan:string(binary_to_list(Text)),
    {ok, #{machine := {module, _, Begins}}} = erl_parse:parse_term(Words),
    Own = fun({update_config, Set}) -> {update_config, maps:merge(Set, Handler)}; (C) -> C end,
    Lives = [{#{index => I, term => T, system_time => Ts, from => none}, Own(C)}
             || {I, T, {'$usr', #{ts := Ts}, C, _}} <- Log, element(1, C) =/= dlx],
    Said = maps:from_list([{I, C} || {#{index := I}, C} <- Lives]),
    {_, Dropped} = lists:foldl(fun({Meta, C}, {S, Found}) ->
      {Ready, _} = Holds(S),
      Done = rabbit_fifo:apply(Meta, C, S),
      Effects = case Done of {_, _} -> []; {_, _, Es} -> Es end,
      Purged = [{purge, I} || element(1, C) =:= purge, I <- Ready],
      {element(1, Done), Found ++ Purged ++ Died(Effects, Said)}
    end, {rabbit_fifo:init(maps:merge(Begins, Handler)), []}, Lives),
    Dropped
  end,
  Told = fun
    (<<"!replay ", File/binary>>, S) ->
      inet:setopts(S, [{packet, 4}]),
      {ok, Log} = gen_tcp:recv(S, 0, 5000),
      inet:setopts(S, [{packet, raw}]),
      Replay(File, Lines(Log));
    (<<>>, _) ->
      Others = [element(1, T) || T <- ets:tab2list(ra_state), element(2, T) =/= leader],
      [ra:trigger_election({N, node()}) || N <- Others],
      {ready, rabbit:is_running(), length(Others)};
    (<<"!written">>, _) ->
      #{names := #{directory_rev := Names}} = ra_system:fetch(quorum_queues),
      dets:sync(Names);
    (Name, _) ->
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
      Told(string:trim(Line), S)
    catch _:Why -> {failed, iolist_to_binary(io_lib:format("~0p", [Why]))} end,
    gen_tcp:send(S, term_to_binary(Answer)),
    gen_tcp:close(S),
    Next()
  end,
  Serve()
end).
